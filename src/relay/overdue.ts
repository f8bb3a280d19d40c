import { RelayFailure } from "./failure.ts";

export interface Patience {
  /** From the end of the request to the beginning of its answer. */
  readonly answerMs: number;
  /** Without a byte in either direction. */
  readonly idleMs: number;
}

/** What has become of a request that has not moved for so long: nothing, or why it is given up. */
export function overdue(isAwaitingAnswer: boolean, forMs: number, { answerMs, idleMs }: Patience) {
  if (isAwaitingAnswer) {
    return forMs > answerMs ? new RelayFailure("answer_timeout", "no answer in time") : undefined;
  }
  return forMs > idleMs ? new RelayFailure("idle_timeout", "nothing came, or was taken, for long") : undefined;
}
