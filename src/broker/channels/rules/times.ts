import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";

// Default lifetimes of channels, renewal times, and the lengths of waits.

/** The time of a change, and the randomness for its jitter. */
export interface TransitionTime {
  readonly nowMs: number;
  /** At least 0 and below 1. */
  readonly random: number;
}

/** The last time that a timestamp can represent (RFC 3339). */
export const lastMs = 253_402_300_799_999;

/** Wait for the response to a watch request; after that, the outcome is unknown. */
export const answerMs = 60_000;
/** Wait for a challenge that confirms a channel; after that, it is created again. */
export const confirmationMs = 10 * 60_000;
/** Time in which the process that decided to stop a channel stops it. Afterwards, the scheduler does. */
export const claimMs = 30_000;
/** Longest assumed lifetime if the provider states no limit. */
export const usualMaxLifeMs = 30 * 86_400_000;
/** Assumed lifetime when neither the caller nor the provider names one. */
export const usualLifeMs = 3_600_000;
/** Minimum interval of renewals, if a provider gives channels almost no lifetime. */
export const minRestMs = 30_000;

/** A channel is renewed between these shares of its lifetime, at random, to spread channels that were made together. */
const renewFromShare = 0.8;
const renewToShare = 0.85;

/** When to renew a channel that is created now. */
export function renewalAtMs(lifeMs: number, { nowMs, random }: TransitionTime): number {
  const share = renewFromShare + (renewToShare - renewFromShare) * random;
  return Math.trunc(Math.max(nowMs + lifeMs * share, nowMs + minRestMs));
}

/** The common lifetime of channels; waits for a channel that does not exist yet assume this lifetime. */
const commonLifeMs = 7 * 86_400_000;
const minWaitMs = 5_000;
export const maxWaitMs = 3_600_000;
/** Limits a provider's `Retry-After` to a day, as for forwards. */
const maxRetryAfterMs = 86_400_000;

/** Exponential backoff, from a two-hundredth of the lifetime up to a fiftieth, and at most an hour. */
export function waitMs({ failures, lifeMs }: StoredChannel, retryAfterMs: number | undefined, random: number): number {
  const life = lifeMs > 0 ? lifeMs : commonLifeMs;
  const least = Math.min(60_000, Math.max(minWaitMs, life / 200));
  const most = Math.min(maxWaitMs, Math.max(30_000, life / 50));
  const backoff = Math.min(most, least * 2 ** Math.min(failures, 20)) * (0.75 + random / 2);
  return Math.max(backoff, Math.min(maxRetryAfterMs, retryAfterMs ?? 0));
}
