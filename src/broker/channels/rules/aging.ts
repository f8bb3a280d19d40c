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
  isUnconfirmed,
  isUnsent,
  isWanted,
  type Slot,
  unconfirmed,
} from "./slot.ts";
import { keptMs, transition } from "./states.ts";
import { answerMs, confirmationMs, maxWaitMs, minRestMs, type TransitionTime } from "./times.ts";

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
    const isUp = one.dueMs <= nowMs || one.dueMs > nowMs + (isUnconfirmed(one) ? confirmationMs : answerMs);
    if (!isUp) return undefined;
    const code = isUnconfirmed(one) ? unconfirmed : "interrupted";
    const kept = { ...one, kept: true };
    const inSlot = slot.map((other) => (other === one ? kept : other));
    return recordNotMade(inSlot, idOf(one), { kind: "unheard", code, newId: newId() }, now);
  }
  if (expiresAtMs(one) <= nowMs) return endChannel(slot, one, { nowMs, newId });
  if (isRenewing(one) && one.inPlace) {
    const isUp = one.dueMs <= nowMs || one.dueMs > nowMs + confirmationMs;
    const code = isUnconfirmed(one) ? unconfirmed : "interrupted";
    return isUp ? recordNotMade(slot, idOf(one), { kind: "put_off", code, newId: newId() }, now) : undefined;
  }
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

interface ChannelEnd {
  readonly nowMs: number;
  readonly newId: () => string;
  /** Why it ended, as a code. Undefined: its time has passed. */
  readonly reason?: string;
}

/** The channel is gone, before or at its expiry: another one is requested, unless it was to be stopped. */
export function endChannel(slot: Slot, one: StoredChannel, { nowMs, newId, reason }: ChannelEnd): ChannelChanges {
  const { createdAt } = channelOf(one);
  const stateReason = reason ?? channelOf(one).stateReason;
  const past = transition(one, "expired", { nowMs, inPlace: false, shown: { stateReason: stateReason || "expired" } });
  if (isStopping(one)) return { ...noChanges, put: [past] };
  const notices: ChannelNotice[] = [{ kind: "expired", channel: past, code: stateReason || "not_renewed" }];
  const candidate = slot.find(isPending);
  // A new channel triggers a catch-up, since notifications were missed in the meantime.
  const catchUp = reason ?? "expired";
  if (candidate !== undefined) return { put: [past, { ...candidate, kept: true, catchUp }], removed: [], notices };
  const restedMs = Math.max(nowMs, (createdAt === undefined ? 0 : timestampMs(createdAt)) + minRestMs);
  const dueMs =
    reason === undefined && one.failures > 0 ? Math.max(nowMs, Math.min(one.dueMs, nowMs + maxWaitMs)) : restedMs;
  const next = { id: newId(), nowMs, dueMs, failures: one.failures, catchUp, previousId: idOf(one) };
  return { put: [past, successor(one, next)], removed: [], notices };
}
