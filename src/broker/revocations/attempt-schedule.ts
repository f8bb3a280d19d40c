/** When a revocation is attempted again, and when it is given up. */

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** A provider may be away for a week. */
export const longestMs = 7 * dayMs;
/** A provider that is away is asked at least this often: a revocation then follows its return within a minute. */
const longestAwayMs = 30_000;
const firstAwayMs = 2_000;
const longestRetryAfterMs = hourMs;
/** A refusal seldom changes, but an operator may correct a client secret. */
const refusalDelaysMs = [
  minuteMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  6 * hourMs,
  12 * hourMs,
  ...Array.from({ length: 6 }, () => dayMs),
];

interface AwayPause {
  /** Number of failures in a row of the integration. */
  readonly failures: number;
  readonly retryAfterMs: number | undefined;
  /** From 0 to 1. */
  readonly random: number;
}

/** How long the tasks of an integration wait whose provider is away. */
export function awayPauseMs({ failures, retryAfterMs = 0, random }: AwayPause): number {
  const delayMs = Math.min(longestAwayMs, firstAwayMs * 2 ** Math.min(failures, 10));
  return Math.round(Math.max(delayMs * (0.75 + 0.5 * random), Math.min(retryAfterMs, longestRetryAfterMs)));
}

/** How long a task waits after so many refusals; undefined: it is given up. */
export function refusalDelayMs(refusals: number, random: number): number | undefined {
  const delayMs = refusalDelaysMs[refusals - 1];
  return delayMs === undefined ? undefined : Math.round(delayMs * (0.9 + 0.2 * random));
}
