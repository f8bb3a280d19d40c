import { RelayFailure } from "./failure.ts";

/** Of what goes to one origin. */
export interface OriginLimits {
  readonly connectMs: number;
  /** From the end of the request to the beginning of its answer. */
  readonly answerMs: number;
  /** Without a byte in either direction. */
  readonly idleMs: number;
  /** Requests that one origin carries at a time; and as many tunnels. */
  readonly perOrigin: number;
  /** Requests that wait for one of them to end. */
  readonly waitingPerOrigin: number;
}

/** Under way, on whatever carries it. */
interface PendingState {
  readonly isAwaitingAnswer: boolean;
}

/** Why what has not moved for so long is given up; undefined: it is not. */
export function overdue(
  { isAwaitingAnswer }: PendingState,
  forMs: number,
  { answerMs, idleMs }: OriginLimits,
): RelayFailure | undefined {
  if (isAwaitingAnswer) {
    return forMs > answerMs ? new RelayFailure("answer_timeout", "no answer in time") : undefined;
  }
  return forMs > idleMs ? new RelayFailure("idle_timeout", "nothing came, or was taken, for long") : undefined;
}

/** Of the monotonic clock, as the last look began: what begins between one look and the next is stamped with it. */
export interface SweepClock {
  readonly nowMs: number;
}
