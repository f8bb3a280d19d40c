import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { idOf, type Slot } from "./slot.ts";

/**
 * A change of the channels in one slot, applied as a whole or not at all. The functions that compute changes are pure
 * (see `making`, `stopping`, `aging`, `foreign`, `loss`). The caller commits a change as a whole, and each record
 * expects the revision that was read. So of two concurrent changes, the second is computed again.
 */
export interface ChannelChanges {
  readonly put: readonly StoredChannel[];
  readonly removed: readonly StoredChannel[];
  readonly notices: readonly ChannelNotice[];
}

/** A notice for the application; the last two kinds are only for the operator. */
export interface ChannelNotice {
  readonly kind:
    | "expiring"
    | "renewal_failed"
    | "expired"
    | "failed"
    | "gap"
    | "silent"
    | "outcome_unknown"
    | "not_stopped";
  readonly channel: StoredChannel;
  readonly code: string;
}

export const noChanges: ChannelChanges = { put: [], removed: [], notices: [] };
export const hasNoChanges = ({ put, removed }: ChannelChanges): boolean => put.length === 0 && removed.length === 0;

/** The slot after a change. */
export function applyChanges(slot: Slot, { put, removed }: ChannelChanges): Slot {
  const changed = new Set([...put, ...removed].map(idOf));
  return [...slot.filter((one) => !changed.has(idOf(one))), ...put];
}

/** Merges two changes: if both change a channel, the second wins. */
export function mergeChanges(first: ChannelChanges, second: ChannelChanges): ChannelChanges {
  const later = new Set([...second.put, ...second.removed].map(idOf));
  const isLater = (one: StoredChannel) => later.has(idOf(one));
  return {
    put: [...first.put.filter((one) => !isLater(one)), ...second.put],
    removed: [...first.removed.filter((one) => !isLater(one)), ...second.removed],
    notices: [...first.notices, ...second.notices],
  };
}
