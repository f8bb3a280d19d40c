import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Channel, Channel_State as State } from "../../../gen/latchkey/v1/channel_pb.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { lastMs } from "./times.ts";

/**
 * The channels of one resource of one connection. One is current; another may be in creation, and any number may wait
 * to be stopped.
 */
export type Slot = readonly StoredChannel[];

/** Identifies a slot. */
export interface WatchedResource {
  readonly ref: ConnectionRef;
  readonly kind: string;
  readonly resource: string;
}

/** Whether its channels serve all connections of the integration. */
export const isOfIntegration = ({ ref }: WatchedResource): boolean => ref.id === "";

export function channelOf({ channel }: StoredChannel): Channel {
  if (channel === undefined) throw new Error("the stored channel is empty");
  return channel;
}

export const idOf = (stored: StoredChannel): string => channelOf(stored).id;
export const stateOf = (stored: StoredChannel): State => channelOf(stored).state;
export function resourceOf(stored: StoredChannel): WatchedResource {
  const { connection: ref, resourceKind: kind, resource } = channelOf(stored);
  if (ref === undefined) throw new Error("the stored channel has no connection");
  return { ref, kind, resource };
}

/** A channel without an end expires at the last time of all. */
export const expiresAtMs = (stored: StoredChannel): number => {
  const { expiresAt } = channelOf(stored);
  return expiresAt === undefined ? lastMs : timestampMs(expiresAt);
};

const over: ReadonlySet<State> = new Set([State.STOPPED, State.EXPIRED, State.FAILED]);

export const isOver = (stored: StoredChannel): boolean => over.has(stateOf(stored));
/** False for a channel made by a customer's script: such a channel is only recorded, and replaced. */
export const isManaged = (stored: StoredChannel): boolean => channelOf(stored).managed;
/** A script's channel is `active` as long as the metadata names it. */
export const isForeign = (stored: StoredChannel): boolean => stateOf(stored) === State.ACTIVE && !isManaged(stored);
/** Our own channel, and not being renewed. */
export const isIdle = (stored: StoredChannel): boolean => stateOf(stored) === State.ACTIVE && isManaged(stored);
export const isRenewing = (stored: StoredChannel): boolean => stateOf(stored) === State.RENEWING;
/** The current channel of its slot. */
export const isCurrent = (stored: StoredChannel): boolean => isIdle(stored) || isRenewing(stored);
/** Requested, or in creation. */
export const isPending = (stored: StoredChannel): boolean => stateOf(stored) === State.CREATING;
/** Is, or may become, the current channel of its slot. */
export const isWanted = (stored: StoredChannel): boolean => isCurrent(stored) || isPending(stored);
/** Wanted, and not yet requested from the provider. */
export const isUnsent = (stored: StoredChannel): boolean => isPending(stored) && stored.tokenHash === "";
/** Requested from the provider, without an outcome yet. */
export const isBeingCreated = (stored: StoredChannel): boolean => isPending(stored) && stored.tokenHash !== "";
/** The provider has taken the request, and still has to confirm it by a challenge. */
export const isUnconfirmed = (stored: StoredChannel): boolean => channelOf(stored).stateReason === unconfirmed;
export const unconfirmed = "unconfirmed";
export const isStopping = (stored: StoredChannel): boolean => stateOf(stored) === State.STOPPING;

/** A caller stopped the channel, or the provider refused it for good: no automatic replacement is made. */
export const forbidsReplacement = (stored: StoredChannel): boolean =>
  stored.stopAsked || stateOf(stored) === State.FAILED;

export const currentOf = (slot: Slot): StoredChannel | undefined => slot.find(isCurrent);
export const findChannel = (slot: Slot, id: string): StoredChannel | undefined => slot.find((one) => idOf(one) === id);

/**
 * The provider's ID of the resource, which is the same for all channels of the slot. Script channels are not used: the
 * resource that they watch is known only to the script.
 */
export const resourceIdIn = (slot: Slot): string =>
  slot
    .filter(isManaged)
    .map((one) => channelOf(one).resourceId)
    .find((resourceId) => resourceId !== "") ?? "";

/** Whether the provider can be asked to stop the channel. */
export const isStoppable = (slot: Slot, one: StoredChannel): boolean => one.stopsById || stopIdOf(slot, one) !== "";

/** The resource ID that stops the channel; empty: it is not known. */
export const stopIdOf = (slot: Slot, one: StoredChannel): string =>
  channelOf(one).resourceId || (isManaged(one) ? resourceIdIn(slot) : "");
