import { Channel_State as State } from "../../../gen/latchkey/v1/channel_pb.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import { requestedChannel } from "./request.ts";
import { channelOf, currentOf, findChannel, isForeign, isPending, type Slot, type WatchedResource } from "./slot.ts";

/** A channel that a customer's script made, named by the metadata of its connection. */
export interface MetadataChannel {
  readonly id: string;
  readonly resourceId: string;
}

/** Stores the channel as known, without further action. */
export function adoptChannel(
  slot: Slot,
  watched: WatchedResource,
  { id, resourceId }: MetadataChannel,
  nowMs: number,
): ChannelChanges {
  if (findChannel(slot, id) !== undefined) return noChanges;
  const foreign = requestedChannel({ ...watched, id, nowMs, askedLifeMs: 0, isDefault: true, kept: false });
  const channel = { ...channelOf(foreign), resourceId, managed: false, state: State.ACTIVE };
  return { ...noChanges, put: [{ ...foreign, channel, dueMs: 0 }] };
}

/** Removes a channel that the metadata no longer names. */
export function disownChannel(slot: Slot, id: string): ChannelChanges {
  const found = findChannel(slot, id);
  return found !== undefined && isForeign(found) ? { ...noChanges, removed: [found] } : noChanges;
}

/** Renews our channel now: a script has made a newer one, and may have stopped ours. */
export function renewOvertaken(slot: Slot, nowMs: number): ChannelChanges {
  const current = currentOf(slot);
  if (current === undefined || slot.some(isPending) || current.dueMs <= nowMs) return noChanges;
  return { ...noChanges, put: [{ ...current, dueMs: nowMs }] };
}
