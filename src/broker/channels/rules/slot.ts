import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Channel, Channel_State as State } from "../../../gen/latchkey/v1/channel_pb.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";

/**
 * The channels of one resource of one connection. One of them is current; beside it there may be one that is being
 * made, and any number that are to be stopped.
 */
export type Slot = readonly StoredChannel[];

/** What a slot is. */
export interface WatchedResource {
  readonly ref: ConnectionRef;
  readonly kind: string;
  readonly resource: string;
}

export function shown({ channel }: StoredChannel): Channel {
  if (channel === undefined) throw new Error("a stored channel holds one");
  return channel;
}

export const idOf = (stored: StoredChannel): string => shown(stored).id;
export const stateOf = (stored: StoredChannel): State => shown(stored).state;
export function placeOf(stored: StoredChannel): WatchedResource {
  const { connection: ref, resourceKind: kind, resource } = shown(stored);
  if (ref === undefined) throw new Error("a channel has a connection");
  return { ref, kind, resource };
}

export const expiresAtMs = (stored: StoredChannel): number => {
  const { expiresAt } = shown(stored);
  return expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
};

const over: ReadonlySet<State> = new Set([State.STOPPED, State.EXPIRED, State.FAILED]);

export const isOver = (stored: StoredChannel): boolean => over.has(stateOf(stored));
/** Not one that a customer's script has made: it is known, and nothing is done about it but to take its place. */
export const isManaged = (stored: StoredChannel): boolean => shown(stored).managed;
/** A script's own is `active` for as long as it is told of. */
export const isForeign = (stored: StoredChannel): boolean => stateOf(stored) === State.ACTIVE && !isManaged(stored);
/** Ours, and not being renewed. */
export const isResting = (stored: StoredChannel): boolean => stateOf(stored) === State.ACTIVE && isManaged(stored);
export const isRenewing = (stored: StoredChannel): boolean => stateOf(stored) === State.RENEWING;
/** The one of its slot. */
export const isCurrent = (stored: StoredChannel): boolean => isResting(stored) || isRenewing(stored);
/** Wanted, or being made. */
export const isToCome = (stored: StoredChannel): boolean => stateOf(stored) === State.CREATING;
/** It is, or may become, the one of its slot. */
export const isWanted = (stored: StoredChannel): boolean => isCurrent(stored) || isToCome(stored);
/** To come, and nobody has been asked for it yet. */
export const isWish = (stored: StoredChannel): boolean => isToCome(stored) && stored.tokenHash === "";
/** To come, and asked for. */
export const isMaking = (stored: StoredChannel): boolean => isToCome(stored) && stored.tokenHash !== "";
export const isStopping = (stored: StoredChannel): boolean => stateOf(stored) === State.STOPPING;

/** Somebody has stopped it, or the provider refused it for good: none is made in its place of our own accord. */
export const isLastWord = (stored: StoredChannel): boolean => stored.stopAsked || stateOf(stored) === State.FAILED;

export const currentOf = (slot: Slot): StoredChannel | undefined => slot.find(isCurrent);
export const oneOf = (slot: Slot, id: string): StoredChannel | undefined => slot.find((one) => idOf(one) === id);

/**
 * What watches the same has the same id at the provider: it is known of one channel if it is of any. What a script's
 * own channel watches it alone knows.
 */
export const resourceIdIn = (slot: Slot): string =>
  slot
    .filter(isManaged)
    .map((one) => shown(one).resourceId)
    .find((resourceId) => resourceId !== "") ?? "";

/** With what it can be stopped; empty: it cannot be yet. */
export const stopIdOf = (slot: Slot, one: StoredChannel): string =>
  shown(one).resourceId || (isManaged(one) ? resourceIdIn(slot) : "");
