import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { idOf, type Slot } from "./slot.ts";

/**
 * What becomes of the channels of one slot, all of it or nothing. Moves are pure (`channel-making`,
 * `channel-stopping`, `channel-aging`, `channel-foreign`, `channel-loss`). Whoever makes one commits it as a whole, each
 * record expecting what was read, so that of two who decide at once the second decides anew.
 */
export interface ChannelChanges {
  readonly put: readonly StoredChannel[];
  readonly gone: readonly StoredChannel[];
  readonly told: readonly ChannelNotice[];
}

/** What the application hears of; the last two only the operator does. */
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

export const nothing: ChannelChanges = { put: [], gone: [], told: [] };
export const isNothing = ({ put, gone }: ChannelChanges): boolean => put.length === 0 && gone.length === 0;

/** A slot as a move leaves it. */
export function applied(slot: Slot, { put, gone }: ChannelChanges): Slot {
  const changed = new Set([...put, ...gone].map(idOf));
  return [...slot.filter((one) => !changed.has(idOf(one))), ...put];
}

/** Two moves as one: of a channel that both change, the later counts. */
export function joined(first: ChannelChanges, second: ChannelChanges): ChannelChanges {
  const later = new Set([...second.put, ...second.gone].map(idOf));
  const isLater = (one: StoredChannel) => later.has(idOf(one));
  return {
    put: [...first.put.filter((one) => !isLater(one)), ...second.put],
    gone: [...first.gone.filter((one) => !isLater(one)), ...second.gone],
    told: [...first.told, ...second.told],
  };
}
