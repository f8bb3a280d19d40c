import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type StoredChannel, StoredChannelSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type Channel, ChannelSchema, Channel_State as State } from "../gen/latchkey/v1/channel_pb.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";

/**
 * The life of notification channels: pure moves, each of which says what becomes of the channels of one slot. A slot
 * is one resource of one connection. One channel of it is current; beside it there may be one that is being made, and
 * any number that are to be stopped. Whoever makes a move commits it as a whole, each record expecting what was read,
 * so that of two who decide at once the second decides anew. A record that says `creating` until its time is over is
 * so a lease: nobody else asks meanwhile.
 */
export type Slot = readonly StoredChannel[];

/** What a slot is. */
export interface Place {
  readonly ref: ConnectionRef;
  readonly kind: string;
  readonly resource: string;
}

/** What a move changes, all of it or nothing. */
export interface Moved {
  readonly put: readonly StoredChannel[];
  readonly gone: readonly StoredChannel[];
  readonly told: readonly Happening[];
}

/** What the application hears of; the last two only the operator does. */
export interface Happening {
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

/** What happens to a channel, and where it leads. What is not in the table does not happen. */
const table: Readonly<Record<State, Partial<Readonly<Record<Event, State>>>>> = {
  [State.UNSPECIFIED]: {},
  [State.CREATING]: {
    asked: State.CREATING,
    put_off: State.CREATING,
    made: State.ACTIVE,
    refused: State.FAILED,
    /** No answer came, or nobody is left who could hear it: it may be there. */
    unheard: State.STOPPING,
    stop_asked: State.STOPPING,
    forgone: State.STOPPED,
    connection_gone: State.STOPPING,
  },
  [State.ACTIVE]: {
    renewal_begun: State.RENEWING,
    put_off: State.ACTIVE,
    replaced: State.STOPPING,
    stop_asked: State.STOPPING,
    expired: State.EXPIRED,
    connection_gone: State.STOPPING,
  },
  [State.RENEWING]: {
    put_off: State.ACTIVE,
    replaced: State.STOPPING,
    stop_asked: State.STOPPING,
    expired: State.EXPIRED,
    connection_gone: State.STOPPING,
  },
  [State.STOPPING]: {
    made: State.STOPPING,
    stopped: State.STOPPED,
    put_off: State.STOPPING,
    stop_asked: State.STOPPING,
    expired: State.EXPIRED,
    connection_gone: State.STOPPING,
  },
  // The answer of a call that was paused for longer than anybody waited: it is there after all.
  [State.STOPPED]: { made: State.STOPPING },
  [State.EXPIRED]: { made: State.STOPPING },
  [State.FAILED]: { made: State.STOPPING },
};

type Event =
  | "asked"
  | "put_off"
  | "made"
  | "refused"
  | "unheard"
  | "renewal_begun"
  | "replaced"
  | "stop_asked"
  | "forgone"
  | "stopped"
  | "expired"
  | "connection_gone";

const over: ReadonlySet<State> = new Set([State.STOPPED, State.EXPIRED, State.FAILED]);

/** Between these shares of its life a channel is renewed, so that those made together are not renewed together. */
const renewFromShare = 0.8;
const renewToShare = 0.85;
/** With less of its life left than this, whoever depends on it is told. */
const warnShare = 0.1;
/** For so long a watch call is waited for; after it, its outcome is unknown. */
export const answerMs = 60_000;
/** For so long what is to be stopped is left to whoever has said so, who does it at once if nothing befalls them. */
export const claimMs = 30_000;
/** What is over is kept for a while: somebody may ask, and late notifications bring its token. */
const keptMs = 7 * 86_400_000;
/** Of one that its provider bounds in no way that we know. */
export const usualMaxLifeMs = 30 * 86_400_000;
/** Of one that nobody said anything of. */
const usualLifeMs = 3_600_000;
/** As long as those live that are made anew as a matter of course: what is not there yet is waited for as long. */
const commonLifeMs = 7 * 86_400_000;

export interface Now {
  readonly nowMs: number;
  /** From 0 up to 1. */
  readonly random: number;
}

export const nothing: Moved = { put: [], gone: [], told: [] };

export function shown({ channel }: StoredChannel): Channel {
  if (channel === undefined) throw new Error("a stored channel holds one");
  return channel;
}

export const idOf = (stored: StoredChannel): string => shown(stored).id;
export const stateOf = (stored: StoredChannel): State => shown(stored).state;
export function placeOf(stored: StoredChannel): Place {
  const { connection: ref, resourceKind: kind, resource } = shown(stored);
  if (ref === undefined) throw new Error("a channel has a connection");
  return { ref, kind, resource };
}

export const expiresAtMs = (stored: StoredChannel): number => {
  const { expiresAt } = shown(stored);
  return expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
};

/** Not one that a customer's script has made: it is known, and nothing is done about it but to take its place. */
export const isManaged = (stored: StoredChannel): boolean => shown(stored).managed;
export const isCurrent = (stored: StoredChannel): boolean =>
  (stateOf(stored) === State.ACTIVE && isManaged(stored)) || stateOf(stored) === State.RENEWING;
/** It is, or may become, the one of its slot. */
export const isWanted = (stored: StoredChannel): boolean => isCurrent(stored) || stateOf(stored) === State.CREATING;
export const isOver = (stored: StoredChannel): boolean => over.has(stateOf(stored));
const isAsked = ({ tokenHash }: StoredChannel): boolean => tokenHash !== "";
const isMaking = (stored: StoredChannel): boolean => stateOf(stored) === State.CREATING && isAsked(stored);

export const currentOf = (slot: Slot): StoredChannel | undefined => slot.find(isCurrent);
const find = (slot: Slot, id: string): StoredChannel | undefined => slot.find((one) => idOf(one) === id);
const isLive = (stored: StoredChannel): boolean => !isOver(stored);

/**
 * What watches the same has the same id at the provider: it is known of one channel if it is of any. What a script's
 * own channel watches it alone knows.
 */
const resourceIdIn = (slot: Slot): string =>
  slot
    .filter(isManaged)
    .map((one) => shown(one).resourceId)
    .find((resourceId) => resourceId !== "") ?? "";

type Patch = Partial<Omit<StoredChannel, "channel" | "$typeName" | "$unknown">>;
interface Turn extends Patch {
  readonly nowMs: number;
  readonly shown?: Partial<Omit<Channel, "$typeName" | "$unknown">>;
}

function turned(stored: StoredChannel, event: Event, { nowMs, shown: change = {}, ...patch }: Turn): StoredChannel {
  const before = shown(stored);
  const state = table[before.state]?.[event];
  if (state === undefined) throw new Error(`to a channel in state ${before.state} this does not happen: ${event}`);
  const channel: Channel = { ...before, ...change, state, updatedAt: timestampFromMs(nowMs) };
  const after = { ...stored, ...patch, channel };
  // What is over is looked at once more, to be forgotten.
  return isOver(after) ? { ...after, dueMs: nowMs + keptMs } : after;
}

export interface Wish extends Place {
  readonly id: string;
  readonly nowMs: number;
  readonly askedLifeMs: number;
  readonly isDefault: boolean;
  readonly kept: boolean;
  readonly dueMs?: number;
  readonly failures?: number;
  readonly previousId?: string;
  readonly catchUp?: string;
}

/** A channel that somebody wants, and nobody has been asked for yet. */
export function wished({ id, ref, kind, resource, nowMs, previousId = "", ...wish }: Wish): StoredChannel {
  const { askedLifeMs, isDefault, kept, dueMs = nowMs, failures = 0, catchUp = "" } = wish;
  const now = timestampFromMs(nowMs);
  return create(StoredChannelSchema, {
    ...{ askedLifeMs, isDefault, kept, dueMs, failures, catchUp },
    channel: create(ChannelSchema, {
      ...{ id, connection: ref, resourceKind: kind, resource, previousId },
      state: State.CREATING,
      managed: true,
      createdAt: now,
      updatedAt: now,
    }),
  });
}

const successor = (old: StoredChannel, more: Pick<Wish, "id" | "nowMs"> & Partial<Wish>): StoredChannel =>
  wished({
    ...placeOf(old),
    ...{ askedLifeMs: old.askedLifeMs, isDefault: old.isDefault, kept: true, catchUp: old.catchUp },
    ...{ previousId: shown(old).previousId, ...more },
  });

/** What time alone brings about. `newId` is asked for where another channel is wanted. */
export function timePasses(slot: Slot, { nowMs, random }: Now, newId: () => string): Moved {
  for (const one of slot) {
    const moved = aged(slot, one, { nowMs, random }, newId);
    if (moved === undefined) continue;
    // One at a time: what becomes of one is what the next is judged by.
    const rest = timePasses(applied(slot, moved), { nowMs, random }, newId);
    return joined(moved, rest);
  }
  return nothing;
}

function aged(slot: Slot, one: StoredChannel, now: Now, newId: () => string): Moved | undefined {
  const { nowMs } = now;
  const { state, stateReason } = shown(one);
  if (isOver(one)) return one.dueMs <= nowMs ? { ...nothing, gone: [one] } : undefined;
  if (state === State.CREATING && !isAsked(one)) {
    // Two may have wanted it at once.
    const isSecond = slot.some(
      (other) => other !== one && isWanted(other) && (isCurrent(other) || idOf(other) < idOf(one)),
    );
    return isSecond ? { ...nothing, gone: [one] } : undefined;
  }
  if (isMaking(one)) {
    // A clock that was set back would have it wait for ever.
    const isUp = one.dueMs <= nowMs || one.dueMs > nowMs + answerMs;
    if (!isUp) return undefined;
    const kept = { ...one, kept: true };
    const inSlot = slot.map((other) => (other === one ? kept : other));
    return notMade(inSlot, idOf(one), { kind: "unheard", code: "interrupted", newId: newId() }, now);
  }
  if (expiresAtMs(one) > nowMs) {
    const isAlone = state === State.RENEWING && !slot.some((other) => stateOf(other) === State.CREATING);
    return isAlone ? { ...nothing, put: [turned(one, "put_off", { nowMs, dueMs: nowMs })] } : undefined;
  }
  const past = turned(one, "expired", { nowMs, shown: { stateReason: stateReason || "expired" } });
  if (state === State.STOPPING) return { ...nothing, put: [past] };
  const told: Happening[] = [{ kind: "expired", channel: past, code: stateReason || "not_renewed" }];
  const candidate = slot.find((other) => stateOf(other) === State.CREATING);
  // Once there is another, what nobody was told of meanwhile is looked for.
  const catchUp = "expired";
  if (candidate !== undefined) return { put: [past, { ...candidate, kept: true, catchUp }], gone: [], told };
  const { createdAt } = shown(one);
  const restedMs = Math.max(nowMs, (createdAt === undefined ? 0 : timestampMs(createdAt)) + minRestMs);
  const dueMs = one.failures > 0 ? Math.max(nowMs, Math.min(one.dueMs, nowMs + maxWaitMs)) : restedMs;
  const next = { id: newId(), nowMs, dueMs, failures: one.failures, catchUp, previousId: idOf(one) };
  return { put: [past, successor(one, next)], gone: [], told };
}

/** What is to be asked of the provider now. */
export type Task =
  | { readonly ask: "watch"; readonly id: string }
  | { readonly ask: "stop"; readonly id: string; readonly resourceId: string };

export function tasksOf(slot: Slot, nowMs: number): readonly Task[] {
  return slot
    .filter((one) => isLive(one) && one.dueMs <= nowMs)
    .flatMap((one): Task[] => {
      const { id, state } = shown(one);
      if (state === State.STOPPING) {
        const known = stopIdOf(slot, one);
        return known === "" ? [] : [{ ask: "stop", id, resourceId: known }];
      }
      const isToMake = (state === State.ACTIVE && isManaged(one)) || (state === State.CREATING && !isAsked(one));
      if (isToMake) return [{ ask: "watch", id }];
      return [];
    });
}

/** With what it can be stopped; empty: it cannot be yet. */
const stopIdOf = (slot: Slot, one: StoredChannel): string =>
  shown(one).resourceId || (isManaged(one) ? resourceIdIn(slot) : "");

/** Whether it may still be asked for: whoever was paused since it was written down may have been given up. */
export const mayAsk = (asked: StoredChannel, nowMs: number): boolean =>
  nowMs < asked.dueMs - answerMs / 2 && nowMs >= asked.dueMs - answerMs;

/** What a move has claimed to be stopped by whoever made it. */
export function claimedIn({ put }: Moved, slot: Slot, nowMs: number): readonly Extract<Task, { ask: "stop" }>[] {
  return put
    .filter((one) => stateOf(one) === State.STOPPING && one.dueMs === nowMs + claimMs)
    .flatMap((one) => {
      const resourceId = stopIdOf(slot, one);
      return resourceId === "" ? [] : [{ ask: "stop" as const, id: idOf(one), resourceId }];
    });
}

/** When a slot is to be looked at again: where nothing can be done about it, only once something will have changed. */
const idleUntil = (slot: Slot, one: StoredChannel, nowMs: number): number =>
  stopIdOf(slot, one) !== "" ? nowMs : expiresAtMs(one);

export interface Asking {
  /** Whom it is asked for: a wish, or the channel that it is to replace. */
  readonly target: string;
  readonly id: string;
  readonly tokenHash: string;
  /** Until when it may live if it is made. */
  readonly untilMs: number;
  readonly nowMs: number;
}

/** Before the provider is asked. Undefined: somebody else is at it, or it is not wanted any more. */
export function begun(slot: Slot, { target, id, tokenHash, untilMs, nowMs }: Asking): Moved | undefined {
  const found = find(slot, target);
  if (found === undefined) return undefined;
  const making = { nowMs, tokenHash, dueMs: nowMs + answerMs, shown: { expiresAt: timestampFromMs(untilMs) } };
  if (stateOf(found) === State.CREATING && !isAsked(found)) {
    if (slot.some((other) => other !== found && isWanted(other))) return undefined;
    const own =
      idOf(found) === id ? found : successor(found, { id, nowMs, kept: found.kept, failures: found.failures });
    const idRefusals = idOf(found) === id ? found.idRefusals : found.idRefusals + 1;
    const put = turned({ ...own, idRefusals }, "asked", making);
    return { ...nothing, put: [put], gone: own === found ? [] : [found] };
  }
  // What was a wish when it was looked at, somebody else has had made since.
  if (id === target) return undefined;
  if (stateOf(found) !== State.ACTIVE || !isManaged(found) || slot.some((other) => stateOf(other) === State.CREATING))
    return undefined;
  const next = successor(found, { id, nowMs, previousId: target, catchUp: "" });
  const candidate = turned(next, "asked", making);
  return { ...nothing, put: [turned(found, "renewal_begun", { nowMs, dueMs: expiresAtMs(found) }), candidate] };
}

export interface Answered {
  readonly resourceId: string;
  readonly resourceUri: string;
  /** Undefined: the provider did not say. */
  readonly expiresAtMs: number | undefined;
}

/** The provider has made it. What it was asked for as is given, for the case that nobody remembers. */
export function made(slot: Slot, asked: StoredChannel, answer: Answered, { nowMs, random }: Now): Moved {
  const { resourceId, resourceUri } = answer;
  const candidate = find(slot, idOf(asked)) ?? asked;
  const wanted = asked.askedLifeMs > 0 ? nowMs + asked.askedLifeMs : nowMs + usualLifeMs;
  const endMs = answer.expiresAtMs ?? wanted;
  const known = { resourceId, resourceUri, expiresAt: timestampFromMs(endMs) };
  if (stateOf(candidate) !== State.CREATING) {
    // It was given up meanwhile: now it is known how to stop it.
    return { ...nothing, put: [turned(candidate, "made", { nowMs, dueMs: nowMs + claimMs, shown: known })] };
  }
  const lifeMs = Math.max(1, endMs - nowMs);
  const share = renewFromShare + (renewToShare - renewFromShare) * random;
  const renewAtMs = Math.trunc(Math.max(nowMs + lifeMs * share, nowMs + minRestMs));
  const current = turned(candidate, "made", {
    ...{ nowMs, lifeMs, dueMs: renewAtMs, failures: 0, idRefusals: 0, kept: true },
    shown: { ...known, renewAt: timestampFromMs(renewAtMs), stateReason: "", createdAt: timestampFromMs(nowMs) },
  });
  const others = slot.filter((one) => idOf(one) !== idOf(current));
  // A script's own, if it watches the same: what the metadata says of it is overwritten, and nobody else could stop it.
  const isRedundant = (one: StoredChannel) =>
    stateOf(one) === State.ACTIVE && !isManaged(one) && shown(one).resourceId === resourceId;
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
    .filter(
      (one) => stateOf(one) === State.STOPPING && isManaged(one) && shown(one).resourceId === "" && resourceId !== "",
    )
    .map((one) => turned(one, "made", { nowMs, dueMs: nowMs + claimMs, shown: { resourceId } }));
  return { put: [current, ...replaced, ...learned], gone: [], told: [] };
}

/** Until when it is to be stopped at the latest, where nobody has said when it ends. */
const endOf = (one: StoredChannel, nowMs: number): Pick<Channel, "expiresAt"> => ({
  expiresAt: shown(one).expiresAt ?? timestampFromMs(nowMs + usualMaxLifeMs),
});

export interface Told {
  readonly id: string;
  readonly resourceId: string;
}

/** The metadata of its connection tells of a channel that a script has made: known from now on, and nothing more. */
export function adopted(slot: Slot, place: Place, { id, resourceId }: Told, nowMs: number): Moved {
  if (find(slot, id) !== undefined) return nothing;
  const foreign = wished({ ...place, id, nowMs, askedLifeMs: 0, isDefault: true, kept: false });
  const channel = { ...shown(foreign), resourceId, managed: false, state: State.ACTIVE };
  return { ...nothing, put: [{ ...foreign, channel, dueMs: 0 }] };
}

/** A script's own is not told of any more. */
export function disowned(slot: Slot, id: string): Moved {
  const found = find(slot, id);
  if (found === undefined || isManaged(found) || stateOf(found) !== State.ACTIVE) return nothing;
  return { ...nothing, gone: [found] };
}

/** Ours takes the place of a script's own that came after it: the script may have stopped ours. */
export function overtaken(slot: Slot, nowMs: number): Moved {
  const current = currentOf(slot);
  const isToCome = slot.some((one) => stateOf(one) === State.CREATING);
  if (current === undefined || isToCome || current.dueMs <= nowMs) return nothing;
  return { ...nothing, put: [{ ...current, dueMs: nowMs }] };
}

/** Notifications say what it watches: now it can be stopped. */
export function resourceLearned(slot: Slot, id: string, resourceId: string, nowMs: number): Moved {
  const found = find(slot, id);
  const isOrphan = found !== undefined && stateOf(found) === State.STOPPING && stopIdOf(slot, found) === "";
  if (!isOrphan || !isManaged(found)) return nothing;
  return { ...nothing, put: [turned(found, "made", { nowMs, dueMs: nowMs, shown: { resourceId } })] };
}

export interface Lost {
  readonly kind: "gap" | "silent";
  readonly code: string;
  /** Another in its place may be heard. */
  readonly isToRenew: boolean;
}

/** It has lost something, or may have: the application hears of it, and what is to catch up is run. */
export function lossFound(slot: Slot, id: string, { kind, code, isToRenew }: Lost, nowMs: number): Moved {
  const found = find(slot, id);
  if (found === undefined) return nothing;
  const isRenewed = isToRenew && isManaged(found) && stateOf(found) === State.ACTIVE;
  const after = { ...found, catchUp: code, ...(isRenewed && { dueMs: Math.min(found.dueMs, nowMs) }) };
  return { put: [after], gone: [], told: [{ kind, channel: after, code }] };
}

/** What was to catch up was asked to. */
export function caughtUp(slot: Slot, id: string): Moved {
  const found = find(slot, id);
  return found === undefined || found.catchUp === "" ? nothing : { ...nothing, put: [{ ...found, catchUp: "" }] };
}

export interface NotMade {
  /**
   * `refused`: for good. `put_off`: certainly not made, and worth asking for again. `unheard`: it may have been made.
   * `unsent`: nothing could be asked, such as for a connection that must be authorised again.
   */
  readonly kind: "refused" | "put_off" | "unheard" | "unsent";
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
  /** For another in its place. */
  readonly newId: string;
}

/** It was not made, or nobody knows. `id` is of what was being made, or of what was to be asked for. */
export function notMade(slot: Slot, id: string, { kind, code, retryAfterMs, newId }: NotMade, now: Now): Moved {
  const { nowMs } = now;
  const found = find(slot, id);
  if (found === undefined || isOver(found) || stateOf(found) === State.STOPPING) return nothing;
  const old = isCurrent(found) ? found : slot.find((one) => isCurrent(one));
  const candidate = stateOf(found) === State.CREATING ? found : undefined;
  const put: StoredChannel[] = [];
  const gone: StoredChannel[] = [];
  const told: Happening[] = [];
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
    put.push({ ...orphan, dueMs: idleUntil(slot, orphan, nowMs) });
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

/** The provider does not take the id: what is wanted is wanted under another. */
export function idRefused(slot: Slot, id: string, newId: string, { nowMs }: Now): Moved {
  const candidate = find(slot, id);
  if (candidate === undefined || !isMaking(candidate)) return nothing;
  const old = currentOf(slot);
  if (old === undefined) {
    const again = successor(candidate, { id: newId, nowMs, kept: candidate.kept, failures: candidate.failures });
    return { ...nothing, put: [again], gone: [candidate] };
  }
  const back = turned(old, "put_off", { nowMs, dueMs: nowMs });
  return { ...nothing, put: [back], gone: [candidate] };
}

/** Somebody wants it stopped, and with it what is being made in its place. */
export function stopAsked(slot: Slot, id: string, nowMs: number): Moved {
  const found = find(slot, id);
  if (found === undefined || isOver(found)) return nothing;
  const put: StoredChannel[] = [];
  const heirs = isCurrent(found) ? slot.filter((one) => stateOf(one) === State.CREATING) : [];
  for (const one of [found, ...heirs]) {
    const shownAs = {
      stateReason: "asked",
      resourceId: stopIdOf(slot, one),
      ...(!isManaged(one) && endOf(one, nowMs)),
    };
    if (stateOf(one) === State.CREATING && !isAsked(one)) {
      put.push(turned(one, "forgone", { nowMs, shown: shownAs }));
    } else {
      // One that is being asked for is stopped once its answer came, or is overdue.
      const dueMs = isMaking(one) ? one.dueMs : idleUntil(slot, one, nowMs + claimMs);
      put.push(turned(one, "stop_asked", { nowMs, dueMs, failures: 0, shown: shownAs }));
    }
  }
  return { ...nothing, put };
}

export function stopped(slot: Slot, id: string, nowMs: number): Moved {
  const found = find(slot, id);
  if (found === undefined || stateOf(found) !== State.STOPPING) return nothing;
  return { ...nothing, put: [turned(found, "stopped", { nowMs })] };
}

export interface NotStopped {
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
  /** Nothing but its expiry will end it: it was made by another client, say. */
  readonly isHopeless: boolean;
}

export function notStopped(slot: Slot, id: string, { code, retryAfterMs, isHopeless }: NotStopped, now: Now): Moved {
  const found = find(slot, id);
  if (found === undefined || stateOf(found) !== State.STOPPING) return nothing;
  const endMs = expiresAtMs(found);
  const dueMs = isHopeless ? endMs : Math.min(endMs, now.nowMs + waitMs(found, retryAfterMs, now.random));
  const turn = { nowMs: now.nowMs, dueMs, failures: found.failures + 1, shown: { stateReason: code } };
  const after = turned(found, "put_off", turn);
  return { put: [after], gone: [], told: found.failures === 0 ? [{ kind: "not_stopped", channel: after, code }] : [] };
}

/** Nobody can ask for anything any more: what is there runs out by itself. */
export function connectionGone(slot: Slot, nowMs: number): Moved {
  const shownAs = { stateReason: "connection_gone" };
  const isForgotten = (one: StoredChannel) =>
    (stateOf(one) === State.CREATING && !isAsked(one)) || (stateOf(one) === State.ACTIVE && !isManaged(one));
  return {
    ...nothing,
    gone: slot.filter(isForgotten),
    put: slot
      .filter((one) => isLive(one) && !isForgotten(one) && !(stateOf(one) === State.STOPPING && one.dueMs > nowMs))
      .map((one) => turned(one, "connection_gone", { nowMs, dueMs: expiresAtMs(one), shown: shownAs })),
  };
}

/** Other credentials are there: what they can make is to be made with them, and now. */
export function renewSoon(slot: Slot, nowMs: number): Moved {
  const isOurs = (one: StoredChannel) => isManaged(one) || stateOf(one) === State.STOPPING;
  const due = slot.filter((one) => isLive(one) && isOurs(one) && !isMaking(one) && stateOf(one) !== State.RENEWING);
  return { ...nothing, put: due.map((one) => ({ ...one, dueMs: Math.min(one.dueMs, nowMs) })) };
}

/** A provider that gives a channel no life to speak of is not asked without a pause. */
const minRestMs = 30_000;
const minWaitMs = 5_000;
const maxWaitMs = 3_600_000;
/** As in forwards: what a provider asks for is believed up to a day. */
const maxRetryAfterMs = 86_400_000;

/** Twice as long each time, from a two-hundredth of a life up to a fiftieth, and at most an hour. */
function waitMs({ failures, lifeMs }: StoredChannel, retryAfterMs: number | undefined, random: number): number {
  const life = lifeMs > 0 ? lifeMs : commonLifeMs;
  const least = Math.min(60_000, Math.max(minWaitMs, life / 200));
  const most = Math.min(maxWaitMs, Math.max(30_000, life / 50));
  const backoff = Math.min(most, least * 2 ** Math.min(failures, 20)) * (0.75 + random / 2);
  return Math.max(backoff, Math.min(maxRetryAfterMs, retryAfterMs ?? 0));
}

/** A slot as a move leaves it. */
export function applied(slot: Slot, { put, gone }: Moved): Slot {
  const changed = new Set([...put, ...gone].map(idOf));
  return [...slot.filter((one) => !changed.has(idOf(one))), ...put];
}

/** Two moves as one: of a channel that both change, the later counts. */
export function joined(first: Moved, second: Moved): Moved {
  const later = new Set([...second.put, ...second.gone].map(idOf));
  const isLater = (one: StoredChannel) => later.has(idOf(one));
  return {
    put: [...first.put.filter((one) => !isLater(one)), ...second.put],
    gone: [...first.gone.filter((one) => !isLater(one)), ...second.gone],
    told: [...first.told, ...second.told],
  };
}

export const isNothing = ({ put, gone }: Moved): boolean => put.length === 0 && gone.length === 0;
