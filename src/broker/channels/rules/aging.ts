import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { recordNotMade } from "./making.ts";
import { applyChanges, type ChannelChanges, type ChannelNotice, mergeChanges, noChanges } from "./move.ts";
import { successor } from "./request.ts";
import {
  channelOf,
  expiresAtMs,
  forbidsReplacement,
  idOf,
  isBeingCreated,
  isCurrent,
  isOver,
  isPending,
  isRenewing,
  isStopping,
  isUnsent,
  isWanted,
  type Slot,
} from "./slot.ts";
import { keptMs, transition } from "./states.ts";
import { answerMs, maxWaitMs, minRestMs, type TransitionTime } from "./times.ts";

/** Applies changes that only time causes. `newId` is called when another channel is requested. */
export function ageSlot(slot: Slot, now: TransitionTime, newId: () => string): ChannelChanges {
  for (const one of slot) {
    const changes = ageChannel(slot, one, now, newId);
    if (changes === undefined) continue;
    // Handles one channel at a time: the result for one affects the next.
    return mergeChanges(changes, ageSlot(applyChanges(slot, changes), now, newId));
  }
  return noChanges;
}

function ageChannel(
  slot: Slot,
  one: StoredChannel,
  now: TransitionTime,
  newId: () => string,
): ChannelChanges | undefined {
  const { nowMs } = now;
  if (isOver(one)) return one.dueMs <= nowMs ? removeFinished(slot, one, nowMs) : undefined;
  if (isUnsent(one)) {
    // Two requests may have been made at once.
    const isSecond = slot.some(
      (other) => other !== one && isWanted(other) && (isCurrent(other) || idOf(other) < idOf(one)),
    );
    return isSecond ? { ...noChanges, removed: [one] } : undefined;
  }
  if (isBeingCreated(one)) {
    // A clock that was set back would otherwise make the channel wait forever.
    const isUp = one.dueMs <= nowMs || one.dueMs > nowMs + answerMs;
    if (!isUp) return undefined;
    const kept = { ...one, kept: true };
    const inSlot = slot.map((other) => (other === one ? kept : other));
    return recordNotMade(inSlot, idOf(one), { kind: "unheard", code: "interrupted", newId: newId() }, now);
  }
  if (expiresAtMs(one) <= nowMs) return expire(slot, one, nowMs, newId);
  const isAlone = isRenewing(one) && !slot.some(isPending);
  return isAlone ? { ...noChanges, put: [transition(one, "put_off", { nowMs, dueMs: nowMs })] } : undefined;
}

/**
 * Removes a finished channel, unless its stop or failure still forbids a replacement: at most one a connection is kept.
 */
function removeFinished(slot: Slot, one: StoredChannel, nowMs: number): ChannelChanges {
  const isSuperseded = slot.some((other) => other !== one && (isWanted(other) || forbidsReplacement(other)));
  const isKept = one.isDefault && forbidsReplacement(one) && !isSuperseded;
  return isKept ? { ...noChanges, put: [{ ...one, dueMs: nowMs + keptMs }] } : { ...noChanges, removed: [one] };
}

function expire(slot: Slot, one: StoredChannel, nowMs: number, newId: () => string): ChannelChanges {
  const { stateReason, createdAt } = channelOf(one);
  const past = transition(one, "expired", { nowMs, shown: { stateReason: stateReason || "expired" } });
  if (isStopping(one)) return { ...noChanges, put: [past] };
  const notices: ChannelNotice[] = [{ kind: "expired", channel: past, code: stateReason || "not_renewed" }];
  const candidate = slot.find(isPending);
  // A new channel triggers a catch-up, since notifications were missed in the meantime.
  const catchUp = "expired";
  if (candidate !== undefined) return { put: [past, { ...candidate, kept: true, catchUp }], removed: [], notices };
  const restedMs = Math.max(nowMs, (createdAt === undefined ? 0 : timestampMs(createdAt)) + minRestMs);
  const dueMs = one.failures > 0 ? Math.max(nowMs, Math.min(one.dueMs, nowMs + maxWaitMs)) : restedMs;
  const next = { id: newId(), nowMs, dueMs, failures: one.failures, catchUp, previousId: idOf(one) };
  return { put: [past, successor(one, next)], removed: [], notices };
}
