import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Channel } from "../../../gen/latchkey/v1/channel_pb.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import {
  channelOf,
  expiresAtMs,
  findChannel,
  isBeingCreated,
  isCurrent,
  isForeign,
  isManaged,
  isOver,
  isPending,
  isStoppable,
  isStopping,
  isUnsent,
  type Slot,
  stopIdOf,
} from "./slot.ts";
import { keptMs, transition } from "./states.ts";
import { claimMs, type TransitionTime, usualMaxLifeMs, waitMs } from "./times.ts";

/** Stops a channel on request, together with its replacement in creation. */
export function requestStop(slot: Slot, id: string, nowMs: number): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || isOver(found)) return noChanges;
  const put: StoredChannel[] = [];
  const successors = isCurrent(found) ? slot.filter(isPending) : [];
  for (const one of [found, ...successors]) {
    const shownAs = {
      stateReason: "asked",
      resourceId: stopIdOf(slot, one),
      ...endOf(one, nowMs),
    };
    if (isUnsent(one)) {
      put.push(transition(one, "forgone", { nowMs, stopAsked: true, shown: shownAs }));
    } else {
      // A channel in creation is stopped once its response has arrived or is overdue.
      const dueMs = isBeingCreated(one) ? one.dueMs : stoppableFrom(slot, one, nowMs + claimMs);
      put.push(transition(one, "stop_asked", { nowMs, dueMs, failures: 0, stopAsked: true, shown: shownAs }));
    }
  }
  return { ...noChanges, put };
}

export function recordStopped(slot: Slot, id: string, nowMs: number): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !isStopping(found)) return noChanges;
  return { ...noChanges, put: [transition(found, "stopped", { nowMs })] };
}

export interface StopFailure {
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
  /** Only expiry will end the channel, for example because another client made it. */
  readonly isHopeless: boolean;
}

export function recordNotStopped(
  slot: Slot,
  id: string,
  { code, retryAfterMs, isHopeless }: StopFailure,
  now: TransitionTime,
): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !isStopping(found)) return noChanges;
  const endMs = expiresAtMs(found);
  const dueMs = isHopeless ? endMs : Math.min(endMs, now.nowMs + waitMs(found, retryAfterMs, now.random));
  const patch = { nowMs: now.nowMs, dueMs, failures: found.failures + 1, shown: { stateReason: code } };
  const after = transition(found, "put_off", patch);
  return {
    put: [after],
    removed: [],
    notices: found.failures === 0 ? [{ kind: "not_stopped", channel: after, code }] : [],
  };
}

/** A notification revealed the resource ID: the channel can now be stopped. */
export function recordResourceId(slot: Slot, id: string, resourceId: string, nowMs: number): ChannelChanges {
  const found = findChannel(slot, id);
  const isOrphan = found !== undefined && isStopping(found) && !isStoppable(slot, found);
  if (!isOrphan || !isManaged(found)) return noChanges;
  return { ...noChanges, put: [transition(found, "made", { nowMs, dueMs: nowMs, shown: { resourceId } })] };
}

/** No more requests are possible: existing channels expire by themselves. */
export function recordConnectionGone(slot: Slot, nowMs: number): ChannelChanges {
  const shownAs = { stateReason: "connection_gone" };
  const isForgotten = (one: StoredChannel) => isUnsent(one) || isForeign(one) || (isOver(one) && isOld(one, nowMs));
  return {
    ...noChanges,
    removed: slot.filter(isForgotten),
    put: slot
      .filter((one) => !isOver(one) && !isForgotten(one) && !(isStopping(one) && one.dueMs > nowMs))
      .map((one) => {
        const end = endOf(one, nowMs);
        const dueMs = end.expiresAt === undefined ? expiresAtMs(one) : timestampMs(end.expiresAt);
        return transition(one, "connection_gone", { nowMs, dueMs, shown: { ...shownAs, ...end } });
      }),
  };
}

/** Whether the time to keep a finished channel is over. */
function isOld(one: StoredChannel, nowMs: number): boolean {
  const { updatedAt } = channelOf(one);
  return updatedAt !== undefined && timestampMs(updatedAt) + keptMs <= nowMs;
}

/** When the channel can be stopped. If it cannot be stopped, it is due again after its expiry. */
export const stoppableFrom = (slot: Slot, one: StoredChannel, nowMs: number): number =>
  isStoppable(slot, one) ? nowMs : expiresAtMs(one);

/** The expiry of the channel; if unknown, the latest time until which it must be stopped. */
export const endOf = (one: StoredChannel, nowMs: number): Pick<Channel, "expiresAt"> => ({
  expiresAt: channelOf(one).expiresAt ?? timestampFromMs(nowMs + usualMaxLifeMs),
});
