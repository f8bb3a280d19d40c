/** Position of a forward in the retry schedule. */
export interface SchedulePosition {
  /** Number of waits that have begun. */
  readonly step: number;
  /** Time when the last of these waits ends, by the schedule. */
  readonly forMs: number;
}

export interface NextAttempt extends SchedulePosition {
  readonly dueMs: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** Waits between attempts: the example of Standard Webhooks 1.0.0, in total 75 hours and 35 minutes. */
const waits = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
] as const;
/** Jitter only lengthens a wait: the promised 75 hours of retries are kept. */
const jitter = 0.2;

const minRetryAfterMs = second;
const maxRetryAfterMs = 24 * hour;

interface FailedAttempt extends SchedulePosition {
  readonly nowMs: number;
  /** Delay that the application requested, if any. */
  readonly retryAfterMs: number | undefined;
  /** Random number from 0 up to 1. */
  readonly random: number;
}

/**
 * Returns the next attempt after a failure, or undefined if there were enough attempts. A delay that the application
 * requests is respected. A requested time before the schedule's does not use up a step: an application that answers "in
 * a second" for a minute has not used all its attempts.
 */
export function nextAttempt({ step, forMs, nowMs, retryAfterMs, random }: FailedAttempt): NextAttempt | undefined {
  const requestedMs =
    retryAfterMs === undefined
      ? undefined
      : nowMs + Math.min(maxRetryAfterMs, Math.max(minRetryAfterMs, Math.round(retryAfterMs)));
  if (requestedMs !== undefined && step > 0 && requestedMs < forMs) return { step, forMs, dueMs: requestedMs };
  const wait = waits[step];
  if (wait === undefined) return undefined;
  const dueMs = nowMs + Math.round(wait * (1 + jitter * random));
  return { step: step + 1, forMs: dueMs, dueMs: requestedMs === undefined ? dueMs : requestedMs };
}
