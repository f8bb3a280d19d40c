/** Where a forward stands in its schedule. */
export interface SchedulePosition {
  /** How many of the waits have begun. */
  readonly step: number;
  /** When the last of these ends, by the schedule. */
  readonly forMs: number;
}

export interface NextAttempt extends SchedulePosition {
  readonly dueMs: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** The waits between attempts: those that Standard Webhooks 1.0.0 gives as its example, 75 hours and 35 minutes. */
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
/** Upward alone: what was promised to be tried for 75 hours is. */
const jitter = 0.2;

const minRetryAfterMs = second;
const maxRetryAfterMs = 24 * hour;

interface FailedAttempt extends SchedulePosition {
  readonly nowMs: number;
  /** What the application asked for, if it did. */
  readonly retryAfterMs: number | undefined;
  /** From 0 up to 1. */
  readonly random: number;
}

/**
 * When a forward is tried again after a failure; undefined when it has been tried often enough. An application that
 * says when to come again is obeyed, and what it asks for earlier than the schedule has it uses none of the schedule
 * up: one that says "in a second" for a minute has not had all its attempts by then.
 */
export function nextAttempt({ step, forMs, nowMs, retryAfterMs, random }: FailedAttempt): NextAttempt | undefined {
  const asked =
    retryAfterMs === undefined
      ? undefined
      : nowMs + Math.min(maxRetryAfterMs, Math.max(minRetryAfterMs, Math.round(retryAfterMs)));
  if (asked !== undefined && step > 0 && asked < forMs) return { step, forMs, dueMs: asked };
  const wait = waits[step];
  if (wait === undefined) return undefined;
  const dueMs = nowMs + Math.round(wait * (1 + jitter * random));
  return { step: step + 1, forMs: dueMs, dueMs: asked === undefined ? dueMs : asked };
}
