import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ChannelChanges, type ChannelNotice, nothing } from "./move.ts";
import { successor } from "./request.ts";
import {
  currentOf,
  expiresAtMs,
  idOf,
  isCurrent,
  isForeign,
  isMaking,
  isManaged,
  isOver,
  isResting,
  isStopping,
  isToCome,
  isWanted,
  isWish,
  oneOf,
  resourceIdIn,
  type Slot,
  shown,
} from "./slot.ts";
import { turned } from "./states.ts";
import { endOf, stoppableFrom } from "./stopping.ts";
import { answerMs, claimMs, renewalAtMs, type TransitionTime, usualLifeMs, waitMs } from "./times.ts";

/**
 * A provider is to be asked for a channel, the first of a slot or the next one. The record that says `creating` until
 * its time is over is a lease: nobody else asks meanwhile.
 */
export interface WatchAttempt {
  /** Whom it is asked for: a wish, or the channel that it is to replace. */
  readonly target: string;
  readonly id: string;
  readonly tokenHash: string;
  /** Until when it may live if it is made. */
  readonly untilMs: number;
  readonly nowMs: number;
}

/** Before the provider is asked. Undefined: somebody else is at it, or it is not wanted any more. */
export function begun(slot: Slot, { target, id, tokenHash, untilMs, nowMs }: WatchAttempt): ChannelChanges | undefined {
  const found = oneOf(slot, target);
  if (found === undefined) return undefined;
  const making = { nowMs, tokenHash, dueMs: nowMs + answerMs, shown: { expiresAt: timestampFromMs(untilMs) } };
  if (isWish(found)) {
    if (slot.some((other) => other !== found && isWanted(other))) return undefined;
    const own =
      idOf(found) === id ? found : successor(found, { id, nowMs, kept: found.kept, failures: found.failures });
    const idRefusals = idOf(found) === id ? found.idRefusals : found.idRefusals + 1;
    const put = turned({ ...own, idRefusals }, "asked", making);
    return { ...nothing, put: [put], gone: own === found ? [] : [found] };
  }
  // What was a wish when it was looked at, somebody else has had made since.
  if (id === target) return undefined;
  if (!isResting(found) || slot.some(isToCome)) return undefined;
  const next = successor(found, { id, nowMs, previousId: target, catchUp: "" });
  const candidate = turned(next, "asked", making);
  return { ...nothing, put: [turned(found, "renewal_begun", { nowMs, dueMs: expiresAtMs(found) }), candidate] };
}

/** Whether it may still be asked for: whoever was paused since it was written down may have been given up. */
export const mayAsk = (asked: StoredChannel, nowMs: number): boolean =>
  nowMs < asked.dueMs - answerMs / 2 && nowMs >= asked.dueMs - answerMs;

export interface WatchAnswer {
  readonly resourceId: string;
  readonly resourceUri: string;
  /** Undefined: the provider did not say. */
  readonly expiresAtMs: number | undefined;
}

/** The provider has made it. What it was asked for as is given, for the case that nobody remembers. */
export function made(slot: Slot, asked: StoredChannel, answer: WatchAnswer, now: TransitionTime): ChannelChanges {
  const { nowMs } = now;
  const { resourceId, resourceUri } = answer;
  const candidate = oneOf(slot, idOf(asked)) ?? asked;
  const wanted = asked.askedLifeMs > 0 ? nowMs + asked.askedLifeMs : nowMs + usualLifeMs;
  const endMs = answer.expiresAtMs ?? wanted;
  const known = { resourceId, resourceUri, expiresAt: timestampFromMs(endMs) };
  if (!isToCome(candidate)) {
    // It was given up meanwhile: now it is known how to stop it.
    return { ...nothing, put: [turned(candidate, "made", { nowMs, dueMs: nowMs + claimMs, shown: known })] };
  }
  const lifeMs = Math.max(1, endMs - nowMs);
  const renewAtMs = renewalAtMs(lifeMs, now);
  const current = turned(candidate, "made", {
    ...{ nowMs, lifeMs, dueMs: renewAtMs, failures: 0, idRefusals: 0, kept: true },
    shown: { ...known, renewAt: timestampFromMs(renewAtMs), stateReason: "", createdAt: timestampFromMs(nowMs) },
  });
  const others = slot.filter((one) => idOf(one) !== idOf(current));
  // A script's own, if it watches the same: what the metadata says of it is overwritten, and nobody else could stop it.
  const isRedundant = (one: StoredChannel) => isForeign(one) && shown(one).resourceId === resourceId;
  const replaced = others
    .filter((one) => isCurrent(one) || isRedundant(one))
    .map((old) =>
      turned(old, "replaced", {
        ...{ nowMs, dueMs: nowMs + claimMs, failures: 0 },
        shown: { stateReason: "replaced", ...endOf(old, nowMs) },
      }),
    );
  // Those that could not be stopped for want of its id.
  const learned = others
    .filter((one) => isStopping(one) && isManaged(one) && shown(one).resourceId === "" && resourceId !== "")
    .map((one) => turned(one, "made", { nowMs, dueMs: nowMs + claimMs, shown: { resourceId } }));
  return { put: [current, ...replaced, ...learned], gone: [], told: [] };
}

/** The provider does not take the id: what is wanted is wanted under another. */
export function idRefused(slot: Slot, id: string, newId: string, { nowMs }: TransitionTime): ChannelChanges {
  const candidate = oneOf(slot, id);
  if (candidate === undefined || !isMaking(candidate)) return nothing;
  const old = currentOf(slot);
  if (old === undefined) {
    const again = successor(candidate, { id: newId, nowMs, kept: candidate.kept, failures: candidate.failures });
    return { ...nothing, put: [again], gone: [candidate] };
  }
  const back = turned(old, "put_off", { nowMs, dueMs: nowMs });
  return { ...nothing, put: [back], gone: [candidate] };
}

export interface WatchFailure {
  /**
   * `refused`: for good. `put_off`: certainly not made, and worth asking for again. `unheard`: it may have been made.
   * `unsent`: nothing can be asked, such as for a connection that must be authorised again.
   */
  readonly kind: "refused" | "put_off" | "unheard" | "unsent";
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
  /** For another in its place. */
  readonly newId: string;
}

/** With less of its life left than this, whoever depends on it is told. */
const warnShare = 0.1;

/** It was not made, or nobody knows. `id` is of what was being made, or of what was to be asked for. */
export function notMade(
  slot: Slot,
  id: string,
  { kind, code, retryAfterMs, newId }: WatchFailure,
  now: TransitionTime,
): ChannelChanges {
  const { nowMs } = now;
  const found = oneOf(slot, id);
  if (found === undefined || isOver(found) || isStopping(found)) return nothing;
  const old = isCurrent(found) ? found : currentOf(slot);
  const candidate = isToCome(found) ? found : undefined;
  const put: StoredChannel[] = [];
  const gone: StoredChannel[] = [];
  const told: ChannelNotice[] = [];
  const reason = { stateReason: code };
  const wait = (of: StoredChannel) => nowMs + waitMs(of, retryAfterMs, now.random);
  if (candidate !== undefined && kind === "unheard") {
    const lost = { ...shown(candidate), resourceId: shown(candidate).resourceId || resourceIdIn(slot) };
    // What is to be caught up with waits for the one after it.
    const orphan = turned({ ...candidate, channel: lost, catchUp: "" }, "unheard", {
      nowMs,
      failures: 0,
      shown: reason,
    });
    put.push({ ...orphan, dueMs: stoppableFrom(slot, orphan, nowMs) });
    told.push({ kind: "outcome_unknown", channel: orphan, code });
  }
  if (old !== undefined) {
    if (candidate !== undefined && kind !== "unheard") gone.push(candidate);
    const isLate = expiresAtMs(old) - nowMs < old.lifeMs * warnShare && !old.warned;
    const dueMs = Math.min(wait(old), expiresAtMs(old));
    const turn = { nowMs, dueMs, failures: old.failures + 1, warned: old.warned || isLate, shown: reason };
    const back = turned(old, "put_off", turn);
    put.push(back);
    if (isLate) told.push({ kind: kind === "unsent" ? "expiring" : "renewal_failed", channel: back, code });
    return { put, gone, told };
  }
  if (candidate === undefined) return { put, gone, told };
  const failures = candidate.failures + 1;
  if (kind === "unheard") {
    // Nobody watches meanwhile: the first time at once.
    const dueMs = candidate.failures === 0 ? nowMs : wait(candidate);
    if (candidate.kept) put.push(successor(candidate, { id: newId, nowMs, dueMs, failures }));
  } else if (kind === "refused" || !candidate.kept) {
    const failed = turned(candidate, "refused", { nowMs, failures, shown: reason });
    put.push(failed);
    if (candidate.kept) told.push({ kind: "failed", channel: failed, code });
  } else {
    put.push(turned(candidate, "put_off", { nowMs, failures, tokenHash: "", dueMs: wait(candidate), shown: reason }));
  }
  return { put, gone, told };
}
