import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Channel } from "../../../gen/latchkey/v1/channel_pb.ts";
import { type ChannelChanges, nothing } from "./move.ts";
import {
  expiresAtMs,
  isCurrent,
  isForeign,
  isMaking,
  isManaged,
  isOver,
  isStopping,
  isToCome,
  isWish,
  oneOf,
  type Slot,
  shown,
  stopIdOf,
} from "./slot.ts";
import { keptMs, turned } from "./states.ts";
import { claimMs, type TransitionTime, usualMaxLifeMs, waitMs } from "./times.ts";

/** Somebody wants it stopped, and with it what is being made in its place. */
export function stopAsked(slot: Slot, id: string, nowMs: number): ChannelChanges {
  const found = oneOf(slot, id);
  if (found === undefined || isOver(found)) return nothing;
  const put: StoredChannel[] = [];
  const heirs = isCurrent(found) ? slot.filter(isToCome) : [];
  for (const one of [found, ...heirs]) {
    const shownAs = {
      stateReason: "asked",
      resourceId: stopIdOf(slot, one),
      ...(!isManaged(one) && endOf(one, nowMs)),
    };
    if (isWish(one)) {
      put.push(turned(one, "forgone", { nowMs, stopAsked: true, shown: shownAs }));
    } else {
      // One that is being asked for is stopped once its answer came, or is overdue.
      const dueMs = isMaking(one) ? one.dueMs : stoppableFrom(slot, one, nowMs + claimMs);
      put.push(turned(one, "stop_asked", { nowMs, dueMs, failures: 0, stopAsked: true, shown: shownAs }));
    }
  }
  return { ...nothing, put };
}

export function stopped(slot: Slot, id: string, nowMs: number): ChannelChanges {
  const found = oneOf(slot, id);
  if (found === undefined || !isStopping(found)) return nothing;
  return { ...nothing, put: [turned(found, "stopped", { nowMs })] };
}

export interface StopFailure {
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
  /** Nothing but its expiry will end it: it was made by another client, say. */
  readonly isHopeless: boolean;
}

export function notStopped(
  slot: Slot,
  id: string,
  { code, retryAfterMs, isHopeless }: StopFailure,
  now: TransitionTime,
): ChannelChanges {
  const found = oneOf(slot, id);
  if (found === undefined || !isStopping(found)) return nothing;
  const endMs = expiresAtMs(found);
  const dueMs = isHopeless ? endMs : Math.min(endMs, now.nowMs + waitMs(found, retryAfterMs, now.random));
  const turn = { nowMs: now.nowMs, dueMs, failures: found.failures + 1, shown: { stateReason: code } };
  const after = turned(found, "put_off", turn);
  return { put: [after], gone: [], told: found.failures === 0 ? [{ kind: "not_stopped", channel: after, code }] : [] };
}

/** Notifications say what it watches: now it can be stopped. */
export function resourceLearned(slot: Slot, id: string, resourceId: string, nowMs: number): ChannelChanges {
  const found = oneOf(slot, id);
  const isOrphan = found !== undefined && isStopping(found) && stopIdOf(slot, found) === "";
  if (!isOrphan || !isManaged(found)) return nothing;
  return { ...nothing, put: [turned(found, "made", { nowMs, dueMs: nowMs, shown: { resourceId } })] };
}

/** Nobody can ask for anything any more: what is there runs out by itself. */
export function connectionGone(slot: Slot, nowMs: number): ChannelChanges {
  const shownAs = { stateReason: "connection_gone" };
  const isForgotten = (one: StoredChannel) => isWish(one) || isForeign(one) || (isOver(one) && isOld(one, nowMs));
  return {
    ...nothing,
    gone: slot.filter(isForgotten),
    put: slot
      .filter((one) => !isOver(one) && !isForgotten(one) && !(isStopping(one) && one.dueMs > nowMs))
      .map((one) => turned(one, "connection_gone", { nowMs, dueMs: expiresAtMs(one), shown: shownAs })),
  };
}

/** It is kept no longer for what it was. */
function isOld(one: StoredChannel, nowMs: number): boolean {
  const { updatedAt } = shown(one);
  return updatedAt !== undefined && timestampMs(updatedAt) + keptMs <= nowMs;
}

/** From when on it can be stopped: where nothing can be done about it, it is looked at once it has run out. */
export const stoppableFrom = (slot: Slot, one: StoredChannel, nowMs: number): number =>
  stopIdOf(slot, one) !== "" ? nowMs : expiresAtMs(one);

/** Until when it is to be stopped at the latest, where nobody has said when it ends. */
export const endOf = (one: StoredChannel, nowMs: number): Pick<Channel, "expiresAt"> => ({
  expiresAt: shown(one).expiresAt ?? timestampFromMs(nowMs + usualMaxLifeMs),
});
