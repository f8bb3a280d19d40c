import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { notMade } from "./making.ts";
import { applied, type ChannelChanges, type ChannelNotice, joined, nothing } from "./move.ts";
import { successor } from "./request.ts";
import {
  expiresAtMs,
  idOf,
  isCurrent,
  isLastWord,
  isMaking,
  isOver,
  isRenewing,
  isStopping,
  isToCome,
  isWanted,
  isWish,
  type Slot,
  shown,
} from "./slot.ts";
import { keptMs, turned } from "./states.ts";
import { answerMs, maxWaitMs, minRestMs, type TransitionTime } from "./times.ts";

/** Applies changes that only time causes. `newId` is called when another channel is requested. */
export function timePasses(slot: Slot, now: TransitionTime, newId: () => string): ChannelChanges {
  for (const one of slot) {
    const moved = aged(slot, one, now, newId);
    if (moved === undefined) continue;
    // Handles one channel at a time: the result for one affects the next.
    return joined(moved, timePasses(applied(slot, moved), now, newId));
  }
  return nothing;
}

function aged(slot: Slot, one: StoredChannel, now: TransitionTime, newId: () => string): ChannelChanges | undefined {
  const { nowMs } = now;
  if (isOver(one)) return one.dueMs <= nowMs ? forgotten(slot, one, nowMs) : undefined;
  if (isWish(one)) {
    // Two requests may have been made at once.
    const isSecond = slot.some(
      (other) => other !== one && isWanted(other) && (isCurrent(other) || idOf(other) < idOf(one)),
    );
    return isSecond ? { ...nothing, gone: [one] } : undefined;
  }
  if (isMaking(one)) {
    // A clock that was set back would otherwise make the channel wait forever.
    const isUp = one.dueMs <= nowMs || one.dueMs > nowMs + answerMs;
    if (!isUp) return undefined;
    const kept = { ...one, kept: true };
    const inSlot = slot.map((other) => (other === one ? kept : other));
    return notMade(inSlot, idOf(one), { kind: "unheard", code: "interrupted", newId: newId() }, now);
  }
  if (expiresAtMs(one) <= nowMs) return expired(slot, one, nowMs, newId);
  const isAlone = isRenewing(one) && !slot.some(isToCome);
  return isAlone ? { ...nothing, put: [turned(one, "put_off", { nowMs, dueMs: nowMs })] } : undefined;
}

/**
 * Removes a finished channel, unless its stop or failure still forbids a replacement: at most one a connection is kept.
 */
function forgotten(slot: Slot, one: StoredChannel, nowMs: number): ChannelChanges {
  const isSuperseded = slot.some((other) => other !== one && (isWanted(other) || isLastWord(other)));
  const isKept = one.isDefault && isLastWord(one) && !isSuperseded;
  return isKept ? { ...nothing, put: [{ ...one, dueMs: nowMs + keptMs }] } : { ...nothing, gone: [one] };
}

function expired(slot: Slot, one: StoredChannel, nowMs: number, newId: () => string): ChannelChanges {
  const { stateReason, createdAt } = shown(one);
  const past = turned(one, "expired", { nowMs, shown: { stateReason: stateReason || "expired" } });
  if (isStopping(one)) return { ...nothing, put: [past] };
  const told: ChannelNotice[] = [{ kind: "expired", channel: past, code: stateReason || "not_renewed" }];
  const candidate = slot.find(isToCome);
  // A new channel triggers a catch-up, since notifications were missed in the meantime.
  const catchUp = "expired";
  if (candidate !== undefined) return { put: [past, { ...candidate, kept: true, catchUp }], gone: [], told };
  const restedMs = Math.max(nowMs, (createdAt === undefined ? 0 : timestampMs(createdAt)) + minRestMs);
  const dueMs = one.failures > 0 ? Math.max(nowMs, Math.min(one.dueMs, nowMs + maxWaitMs)) : restedMs;
  const next = { id: newId(), nowMs, dueMs, failures: one.failures, catchUp, previousId: idOf(one) };
  return { put: [past, successor(one, next)], gone: [], told };
}
