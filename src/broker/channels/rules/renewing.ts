import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { lifeOf, type WatchAnswer } from "./making.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import { findChannel, isIdle, isPending, isRenewing, type Slot, unconfirmed } from "./slot.ts";
import { transition } from "./states.ts";
import { answerMs, confirmationMs, type TransitionTime } from "./times.ts";

/**
 * Renewals in place: the channel keeps its ID, and nothing has to be stopped. State `renewing` acts as a lease until it
 * is due. A renewal may safely be sent twice, so a lost response is no more than a failure.
 */

/** Called before the request. Undefined: another process works on the channel, or it is no longer wanted. */
export function beginRenewal(slot: Slot, id: string, nowMs: number): ChannelChanges | undefined {
  const found = findChannel(slot, id);
  if (found === undefined || !isIdle(found) || slot.some(isPending)) return undefined;
  const step = { nowMs, inPlace: true, confirmed: false, dueMs: nowMs + answerMs };
  return { ...noChanges, put: [transition(found, "renewal_begun", step)] };
}

/** Stores a response that extends the channel. */
export function recordRenewed(slot: Slot, id: string, answer: RenewalAnswer, now: TransitionTime): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !isRenewing(found) || !found.inPlace) return noChanges;
  if (answer.awaitsChallenge === true && !found.confirmed) {
    const step = { nowMs: now.nowMs, dueMs: now.nowMs + confirmationMs, shown: { stateReason: unconfirmed } };
    return { ...noChanges, put: [transition(found, "answered", step)] };
  }
  return { ...noChanges, put: [extended(found, answer, now)] };
}

export type RenewalAnswer = Pick<WatchAnswer, "expiresAtMs" | "isEndless" | "awaitsChallenge">;

/** The channel with its new life. */
export function extended(found: StoredChannel, answer: RenewalAnswer, now: TransitionTime): StoredChannel {
  const { lifeMs, dueMs, shown, renewal } = lifeOf(found, answer, now);
  return transition(found, "renewed", {
    nowMs: now.nowMs,
    lifeMs,
    dueMs,
    failures: 0,
    warned: false,
    inPlace: false,
    reauthorize: false,
    shown: { ...shown, ...renewal, stateReason: "" },
  });
}

/** The provider has authorized the channel again: its expiry stays. */
export function recordReauthorized(slot: Slot, id: string, renewAtMs: number, nowMs: number): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !isRenewing(found) || !found.inPlace) return noChanges;
  const step = { nowMs, dueMs: renewAtMs, failures: 0, inPlace: false, reauthorize: false, shown: { stateReason: "" } };
  return { ...noChanges, put: [transition(found, "renewed", step)] };
}
