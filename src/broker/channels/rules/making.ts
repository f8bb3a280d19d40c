import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ChannelChanges, type ChannelNotice, noChanges } from "./move.ts";
import { successor } from "./request.ts";
import {
  channelOf,
  currentOf,
  expiresAtMs,
  findChannel,
  idOf,
  isBeingCreated,
  isCurrent,
  isForeign,
  isIdle,
  isManaged,
  isOver,
  isPending,
  isStopping,
  isUnsent,
  isWanted,
  resourceIdIn,
  type Slot,
  unconfirmed,
} from "./slot.ts";
import { transition } from "./states.ts";
import { endOf, stoppableFrom } from "./stopping.ts";
import {
  answerMs,
  claimMs,
  confirmationMs,
  lastMs,
  renewalAtMs,
  type TransitionTime,
  usualLifeMs,
  waitMs,
} from "./times.ts";

/**
 * A request for a channel, the first of a slot or the next one. Its record in state `creating` acts as a lease until it
 * is due: no other process sends a request in the meantime.
 */
export interface WatchAttempt {
  /** The ID of the requested channel, or of the channel to replace. */
  readonly target: string;
  readonly id: string;
  readonly tokenHash: string;
  /** How channels of this resource are created. */
  readonly creation: Pick<StoredChannel, "key" | "stopsById" | "hasOwnKey">;
  /** When the channel expires at the latest, if it is made. */
  readonly untilMs: number;
  readonly nowMs: number;
}

/** Called before the request. Undefined: another process works on the channel, or it is no longer wanted. */
export function beginWatch(
  slot: Slot,
  { target, id, tokenHash, creation, untilMs, nowMs }: WatchAttempt,
): ChannelChanges | undefined {
  const found = findChannel(slot, target);
  if (found === undefined) return undefined;
  const shown = { expiresAt: timestampFromMs(untilMs), stateReason: "" };
  const making = { ...creation, nowMs, tokenHash, confirmed: false, dueMs: nowMs + answerMs, shown };
  if (isUnsent(found)) {
    if (slot.some((other) => other !== found && isWanted(other))) return undefined;
    const own =
      idOf(found) === id ? found : successor(found, { id, nowMs, kept: found.kept, failures: found.failures });
    const idRefusals = idOf(found) === id ? found.idRefusals : found.idRefusals + 1;
    const put = transition({ ...own, idRefusals }, "asked", making);
    return { ...noChanges, put: [put], removed: own === found ? [] : [found] };
  }
  // The request was open when it was read, but another process has handled it since.
  if (id === target) return undefined;
  if (!isIdle(found) || slot.some(isPending)) return undefined;
  const next = successor(found, { id, nowMs, previousId: target, catchUp: "" });
  const candidate = transition(next, "asked", making);
  return { ...noChanges, put: [transition(found, "renewal_begun", { nowMs, dueMs: expiresAtMs(found) }), candidate] };
}

/** Whether the request may still be sent: after a pause, other processes may have given it up. */
export const maySendWatch = (channel: StoredChannel, nowMs: number): boolean =>
  nowMs < channel.dueMs - answerMs / 2 && nowMs >= channel.dueMs - answerMs;

export interface WatchAnswer {
  readonly resourceId: string;
  readonly resourceUri: string;
  /** Undefined: the provider did not say. */
  readonly expiresAtMs: number | undefined;
  /** Empty: the provider uses Latchkey's ID. */
  readonly providerId?: string;
  /** The key that the provider chose; empty: it chose none. */
  readonly key?: string;
  readonly position?: string;
  /** The channel has no end. */
  readonly isEndless?: boolean;
  /** The channel exists only once a challenge has confirmed it. */
  readonly awaitsChallenge?: boolean;
}

/** Stores a created channel. `sent` is the channel as requested, in case its record is gone. */
export function recordMade(slot: Slot, sent: StoredChannel, answer: WatchAnswer, now: TransitionTime): ChannelChanges {
  const { nowMs } = now;
  const { resourceId, resourceUri, providerId = "", position = "" } = answer;
  const candidate = findChannel(slot, idOf(sent)) ?? sent;
  const end = lifeOf(candidate, answer, now);
  const known = { resourceId, resourceUri, providerId, position, ...end.shown };
  const key = answer.key || candidate.key;
  if (!isPending(candidate)) {
    // The channel was given up in the meantime; the response now shows how to stop it.
    const shown = { ...known, ...(end.lifeMs === 0 && endOf(candidate, nowMs)) };
    return { ...noChanges, put: [transition(candidate, "made", { nowMs, key, dueMs: nowMs + claimMs, shown })] };
  }
  if (answer.awaitsChallenge === true && !candidate.confirmed) {
    const shown = { resourceId, resourceUri, providerId, position, stateReason: unconfirmed };
    return {
      ...noChanges,
      put: [transition(candidate, "answered", { nowMs, key, dueMs: nowMs + confirmationMs, shown })],
    };
  }
  const current = transition(candidate, "made", {
    nowMs,
    key,
    lifeMs: end.lifeMs,
    dueMs: end.dueMs,
    failures: 0,
    idRefusals: 0,
    kept: true,
    shown: { ...known, ...end.renewal, stateReason: "", createdAt: timestampFromMs(nowMs) },
  });
  const others = slot.filter((one) => idOf(one) !== idOf(current));
  // Also replaces a script's own channel on the same resource: its metadata is overwritten, so nothing else could stop
  // it.
  const isRedundant = (one: StoredChannel) => isForeign(one) && channelOf(one).resourceId === resourceId;
  const replaced = others
    .filter((one) => isCurrent(one) || isRedundant(one))
    .map((old) =>
      transition(old, "replaced", {
        nowMs,
        dueMs: nowMs + claimMs,
        failures: 0,
        shown: { stateReason: "replaced", ...endOf(old, nowMs) },
      }),
    );
  // Channels that could not be stopped before for lack of the resource ID.
  const learned = others
    .filter((one) => isStopping(one) && isManaged(one) && channelOf(one).resourceId === "" && resourceId !== "")
    .map((one) => transition(one, "made", { nowMs, dueMs: nowMs + claimMs, shown: { resourceId } }));
  return { put: [current, ...replaced, ...learned], removed: [], notices: [] };
}

/** The expiry and renewal of a channel that the provider has created, confirmed or extended. */
export function lifeOf(
  { askedLifeMs, confirmedLifeS }: Pick<StoredChannel, "askedLifeMs" | "confirmedLifeS">,
  { expiresAtMs: answered, isEndless = false }: Pick<WatchAnswer, "expiresAtMs" | "isEndless">,
  now: TransitionTime,
) {
  const { nowMs } = now;
  const granted = confirmedLifeS > 0n ? nowMs + Number(confirmedLifeS) * 1_000 : answered;
  if (isEndless && granted === undefined) {
    return { lifeMs: 0, dueMs: 0, shown: { expiresAt: undefined }, renewal: { renewAt: undefined } } as const;
  }
  const endMs = Math.min(lastMs, granted ?? nowMs + (askedLifeMs > 0 ? askedLifeMs : usualLifeMs));
  const lifeMs = Math.max(1, endMs - nowMs);
  const dueMs = renewalAtMs(lifeMs, now);
  return {
    lifeMs,
    dueMs,
    shown: { expiresAt: timestampFromMs(endMs) },
    renewal: { renewAt: timestampFromMs(dueMs) },
  } as const;
}

/** The provider does not accept the ID: request the channel under another one. */
export function replaceRefusedId(slot: Slot, id: string, newId: string, { nowMs }: TransitionTime): ChannelChanges {
  const candidate = findChannel(slot, id);
  if (candidate === undefined || !isBeingCreated(candidate)) return noChanges;
  const old = currentOf(slot);
  if (old === undefined) {
    const again = successor(candidate, { id: newId, nowMs, kept: candidate.kept, failures: candidate.failures });
    return { ...noChanges, put: [again], removed: [candidate] };
  }
  const back = transition(old, "put_off", { nowMs, dueMs: nowMs });
  return { ...noChanges, put: [back], removed: [candidate] };
}

export interface WatchFailure {
  /**
   * `refused`: for good. `put_off`: certainly not created, and worth a retry. `unheard`: possibly created. `unsent`: no
   * request can be sent, for example because the connection must be re-authorized.
   */
  readonly kind: "refused" | "put_off" | "unheard" | "unsent";
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
  /** The ID for a replacement. */
  readonly newId: string;
}

/** The application is warned when a smaller share of the lifetime is left. */
const warnShare = 0.1;

/**
 * Notes that a channel was not created, or that the outcome is unknown. `id` is the requested channel's, or its
 * target's.
 */
export function recordNotMade(
  slot: Slot,
  id: string,
  { kind, code, retryAfterMs, newId }: WatchFailure,
  now: TransitionTime,
): ChannelChanges {
  const { nowMs } = now;
  const found = findChannel(slot, id);
  if (found === undefined || isOver(found) || isStopping(found)) return noChanges;
  const old = isCurrent(found) ? found : currentOf(slot);
  const candidate = isPending(found) ? found : undefined;
  const put: StoredChannel[] = [];
  const removed: StoredChannel[] = [];
  const notices: ChannelNotice[] = [];
  const reason = { stateReason: code };
  const wait = (of: StoredChannel) => nowMs + waitMs(of, retryAfterMs, now.random);
  if (candidate !== undefined && kind === "unheard") {
    const lost = { ...channelOf(candidate), resourceId: channelOf(candidate).resourceId || resourceIdIn(slot) };
    // The catch-up waits for the channel's successor.
    const orphan = transition({ ...candidate, channel: lost, catchUp: "" }, "unheard", {
      nowMs,
      failures: 0,
      lost: lost.providerId === "",
      shown: reason,
    });
    put.push({ ...orphan, dueMs: stoppableFrom(slot, orphan, nowMs) });
    notices.push({ kind: "outcome_unknown", channel: orphan, code });
  }
  if (old !== undefined) {
    if (candidate !== undefined && kind !== "unheard") removed.push(candidate);
    const isLate = expiresAtMs(old) - nowMs < old.lifeMs * warnShare && !old.warned;
    const dueMs = Math.min(wait(old), expiresAtMs(old));
    const failures = old.failures + 1;
    const patch = { nowMs, dueMs, failures, inPlace: false, warned: old.warned || isLate, shown: reason };
    const back = transition(old, "put_off", patch);
    put.push(back);
    if (isLate) notices.push({ kind: kind === "unsent" ? "expiring" : "renewal_failed", channel: back, code });
    return { put, removed, notices };
  }
  if (candidate === undefined) return { put, removed, notices };
  const failures = candidate.failures + 1;
  if (kind === "unheard") {
    // No channel watches in the meantime, so the first retry is immediate.
    const dueMs = candidate.failures === 0 ? nowMs : wait(candidate);
    if (candidate.kept) put.push(successor(candidate, { id: newId, nowMs, dueMs, failures }));
  } else if (kind === "refused" || !candidate.kept) {
    const failed = transition(candidate, "refused", { nowMs, failures, shown: reason });
    put.push(failed);
    if (candidate.kept) notices.push({ kind: "failed", channel: failed, code });
  } else {
    put.push(
      transition(candidate, "put_off", {
        nowMs,
        failures,
        tokenHash: "",
        key: "",
        dueMs: wait(candidate),
        shown: reason,
      }),
    );
  }
  return { put, removed, notices };
}
