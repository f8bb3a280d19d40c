import { Channel_State as State } from "../../../gen/latchkey/v1/channel_pb.ts";
import { type ChannelChanges, nothing } from "./move.ts";
import { wished } from "./request.ts";
import { currentOf, isForeign, isToCome, oneOf, type Slot, shown, type WatchedResource } from "./slot.ts";

/** A channel that a customer's script made, named by the metadata of its connection. */
export interface MetadataChannel {
  readonly id: string;
  readonly resourceId: string;
}

/** Stores the channel as known, without further action. */
export function adopted(
  slot: Slot,
  place: WatchedResource,
  { id, resourceId }: MetadataChannel,
  nowMs: number,
): ChannelChanges {
  if (oneOf(slot, id) !== undefined) return nothing;
  const foreign = wished({ ...place, id, nowMs, askedLifeMs: 0, isDefault: true, kept: false });
  const channel = { ...shown(foreign), resourceId, managed: false, state: State.ACTIVE };
  return { ...nothing, put: [{ ...foreign, channel, dueMs: 0 }] };
}

/** Removes a channel that the metadata no longer names. */
export function disowned(slot: Slot, id: string): ChannelChanges {
  const found = oneOf(slot, id);
  return found !== undefined && isForeign(found) ? { ...nothing, gone: [found] } : nothing;
}

/** Renews our channel now: a script has made a newer one, and may have stopped ours. */
export function overtaken(slot: Slot, nowMs: number): ChannelChanges {
  const current = currentOf(slot);
  if (current === undefined || slot.some(isToCome) || current.dueMs <= nowMs) return nothing;
  return { ...nothing, put: [{ ...current, dueMs: nowMs }] };
}
