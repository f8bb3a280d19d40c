import { RelayFailure } from "./failure.ts";

/** Limits for one origin. */
export interface OriginLimits {
  readonly connectMs: number;
  /** From the end of the request to the beginning of its response. */
  readonly answerMs: number;
  /** Time without a byte in either direction. */
  readonly idleMs: number;
  /** Concurrent requests to one origin; as many tunnels may be open as well. */
  readonly perOrigin: number;
  /** Queued requests for one origin. */
  readonly waitingPerOrigin: number;
}

/** A request in progress, in either protocol. */
interface PendingState {
  readonly isAwaitingAnswer: boolean;
}

/** Returns the failure for a request without progress; undefined while the request is within its limits. */
export function overdue(
  { isAwaitingAnswer }: PendingState,
  forMs: number,
  { answerMs, idleMs }: OriginLimits,
): RelayFailure | undefined {
  if (isAwaitingAnswer) {
    return forMs > answerMs ? new RelayFailure("answer_timeout", "no response in time") : undefined;
  }
  return forMs > idleMs ? new RelayFailure("idle_timeout", "no data was sent or read for too long") : undefined;
}

/** Monotonic clock, set at the start of each sweep. Requests that begin between two sweeps use this time. */
export interface SweepClock {
  readonly nowMs: number;
}
