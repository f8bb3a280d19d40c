import { recordMade } from "./making.ts";
import { applyChanges, type ChannelChanges, mergeChanges, noChanges } from "./move.ts";
import { channelOf, currentOf, findChannel, isStopping, isUnsent, type Slot } from "./slot.ts";
import { transition } from "./states.ts";
import { claimMs, type TransitionTime } from "./times.ts";

/** Channels whose creation had no response: the provider may list them. */
export const lostIn = (slot: Slot): Slot =>
  slot.filter((one) => isStopping(one) && one.lost && channelOf(one).providerId === "");

/** A channel that the provider lists. */
export interface ListedChannel {
  readonly providerId: string;
  readonly address: string;
  /** Undefined: the list does not say. */
  readonly expiresAtMs: number | undefined;
}

/** The list names a lost channel: its ID is now known, so that it can be stopped. */
export function recordFound(slot: Slot, id: string, providerId: string, nowMs: number): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !isStopping(found)) return noChanges;
  const step = { nowMs, lost: false, dueMs: nowMs + claimMs, shown: { providerId } };
  return { ...noChanges, put: [transition(found, "made", step)] };
}

/**
 * Makes a lost channel the current one of its slot, in place of the channel that was requested instead. Undefined: it is
 * not wanted any more.
 */
export function recordAdopted(
  slot: Slot,
  id: string,
  { providerId, expiresAtMs }: Omit<ListedChannel, "address">,
  isEndless: boolean,
  now: TransitionTime,
): ChannelChanges | undefined {
  const found = findChannel(slot, id);
  if (found === undefined || !isStopping(found) || found.stopAsked || currentOf(slot) !== undefined) return undefined;
  const instead = slot.find(isUnsent);
  const given = { ...noChanges, removed: instead === undefined ? [] : [instead] };
  const catchUp = instead?.catchUp ?? found.catchUp;
  const back = transition(found, "adopted", { nowMs: now.nowMs, lost: false, kept: true, catchUp });
  const { resourceId, resourceUri, position } = channelOf(found);
  const answer = { resourceId, resourceUri, position, providerId, expiresAtMs, isEndless };
  const made = recordMade(applyChanges(slot, { ...given, put: [back] }), back, answer, now);
  // Its exact expiry is unknown: the first renewal tells it.
  const isVague = expiresAtMs === undefined && !isEndless;
  const put = made.put.map((one) => (isVague && one.channel?.id === id ? { ...one, dueMs: now.nowMs } : one));
  return mergeChanges(given, { ...made, put });
}
