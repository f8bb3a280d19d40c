import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";

// How long channels live where nobody says so, when they are renewed, and how long is waited for what.

/** When a move is made, and what its jitter is made of. */
export interface TransitionTime {
  readonly nowMs: number;
  /** From 0 up to 1. */
  readonly random: number;
}

/** For so long a watch call is waited for; after it, its outcome is unknown. */
export const answerMs = 60_000;
/** For so long what is to be stopped is left to whoever has said so, who does it at once if nothing befalls them. */
export const claimMs = 30_000;
/** Of one that its provider bounds in no way that we know. */
export const usualMaxLifeMs = 30 * 86_400_000;
/** Of one that nobody said anything of. */
export const usualLifeMs = 3_600_000;
/** A provider that gives a channel no life to speak of is not asked without a pause. */
export const minRestMs = 30_000;

/** Between these shares of its life a channel is renewed, so that those made together are not renewed together. */
const renewFromShare = 0.8;
const renewToShare = 0.85;

/** When a channel that was made now is to be renewed. */
export function renewalAtMs(lifeMs: number, { nowMs, random }: TransitionTime): number {
  const share = renewFromShare + (renewToShare - renewFromShare) * random;
  return Math.trunc(Math.max(nowMs + lifeMs * share, nowMs + minRestMs));
}

/** As long as those live that are made anew as a matter of course: what is not there yet is waited for as long. */
const commonLifeMs = 7 * 86_400_000;
const minWaitMs = 5_000;
export const maxWaitMs = 3_600_000;
/** As in forwards: what a provider asks for is believed up to a day. */
const maxRetryAfterMs = 86_400_000;

/** Twice as long each time, from a two-hundredth of a life up to a fiftieth, and at most an hour. */
export function waitMs({ failures, lifeMs }: StoredChannel, retryAfterMs: number | undefined, random: number): number {
  const life = lifeMs > 0 ? lifeMs : commonLifeMs;
  const least = Math.min(60_000, Math.max(minWaitMs, life / 200));
  const most = Math.min(maxWaitMs, Math.max(30_000, life / 50));
  const backoff = Math.min(most, least * 2 ** Math.min(failures, 20)) * (0.75 + random / 2);
  return Math.max(backoff, Math.min(maxRetryAfterMs, retryAfterMs ?? 0));
}
