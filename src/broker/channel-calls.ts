import { hash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../base/fault.ts";
import { type SmallAnswer, Unanswered } from "../base/sending.ts";
import type { World } from "../base/world.ts";
import { timePasses } from "../core/channel-aging.ts";
import { type StopVerdict, stopVerdict, type WatchVerdict, watchVerdict } from "../core/channel-answer.ts";
import { begun, idRefused, made, mayAsk, notMade } from "../core/channel-making.ts";
import { applied, joined, type Moved } from "../core/channel-move.ts";
import { askedExpirationMs, mayLiveUntilMs, type Watched, watchedBy } from "../core/channel-rules.ts";
import { currentOf, idOf, oneOf, type Place, type Slot, shown } from "../core/channel-slot.ts";
import { connectionGone, notStopped, stopped } from "../core/channel-stopping.ts";
import { claimedIn, type Task, tasksOf } from "../core/channel-tasks.ts";
import type { StoredChannel } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { Connection_State } from "../gen/latchkey/v1/connection_pb.ts";
import { StoreUnavailable } from "../store/contract.ts";
import type { ChannelSlots, MoveOptions } from "./channel-slots.ts";
import type { Live, LiveConnection } from "./live.ts";
import { type ChannelAsk, jsonOf, type ProviderAsks } from "./provider-asks.ts";
import { reauthorize } from "./refresh-faults.ts";
import type { WebhookUrls } from "./webhook-urls.ts";

/** Asks providers for channels and to stop them, each time with the record of it written down first. */
export interface ChannelCalls {
  /** What time has brought about, and then what is to be asked now. */
  tend(place: Place, signal?: AbortSignal): Promise<Tended>;
  /** For what is wanted, or in the place of what there is. */
  watch(place: Place, target: string, options?: WatchOptions): Promise<WatchOutcome>;
  stop(
    place: Place,
    task: Pick<Extract<Task, { ask: "stop" }>, "id" | "resourceId">,
    signal?: AbortSignal,
  ): Promise<StopVerdict>;
  /** What whoever made this move has claimed to stop. */
  stopClaimed(place: Place, moved: Moved | undefined, claim: Claim): Promise<void>;
}

export interface WatchOptions extends Pick<MoveOptions, "alongside"> {
  /** Somebody has chosen the id: another would not be what was asked for. */
  readonly isIdGiven?: boolean;
}

export interface Claim {
  /** When the move was made. */
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Tended {
  /** The provider has said to come again no sooner. */
  readonly retryAfterMs: number | undefined;
}

export type WatchOutcome =
  | { readonly kind: "made"; readonly id: string }
  /** Somebody else was at it. */
  | { readonly kind: "overtaken" }
  | {
      readonly kind: "refused" | "put_off" | "unheard" | "unsent" | "id_taken";
      readonly code: string;
      readonly retryAfterMs?: number | undefined;
      readonly fault?: Fault | undefined;
    };

interface Unsent {
  readonly kind: "unsent";
  readonly code: string;
  readonly fault: Fault;
}

interface CallsOptions {
  readonly slots: ChannelSlots;
  readonly live: Live;
  readonly asks: ProviderAsks;
  readonly urls: WebhookUrls;
  readonly world: World;
}

/** Of ids that we make up, another is tried so often when the provider says that it knows it. */
const maxIds = 3;
/** Less than a record of it says `creating`. */
const watchWithinMs = 30_000;
const stopWithinMs = 15_000;
/** Why nothing can be asked for a connection whose end user has to come first. */
const dead = "reauthorization_required";
const storeRetryMs = 500;
const storePatienceMs = 20_000;

/** 132 random bits, within the characters and the length of every provider that we know. */
export const newChannelId = (): string => randomBytes(21).toString("base64url").replace(/^-/, "_");

export function createChannelCalls({ slots, live, asks, urls, world }: CallsOptions): ChannelCalls {
  const { metrics, log } = world;
  const now = () => ({ nowMs: world.now(), random: Math.random() });

  /** With other credentials once, if there are any, where these are not taken. Rejects where there will be none. */
  async function askWith(found: LiveConnection, ask: ChannelAsk): Promise<SmallAnswer> {
    const answer = await asks.ofChannel(found, ask);
    if (answer.status !== 401) return answer;
    const replacement = await live.replacementOf(found).catch((error: unknown) => {
      if (error instanceof Fault && error.code !== dead) return undefined;
      throw error;
    });
    return replacement === undefined ? answer : asks.ofChannel(replacement, ask);
  }

  /**
   * A connection that must be authorised again may have an access token that is good for long yet. Once the provider
   * has refused it, what the channel says of itself is why nobody asks before there is another.
   */
  async function requireHope({ connection }: LiveConnection, place: Place, id: string): Promise<void> {
    if (connection.state !== Connection_State.REAUTHORIZATION_REQUIRED) return;
    const known = oneOf(await slots.read(place), id);
    if (known !== undefined && shown(known).stateReason === dead) throw reauthorize(place.ref, connection.stateReason);
  }

  interface Prepared {
    readonly found: LiveConnection;
    readonly watched: Watched;
    readonly address: string;
  }

  async function prepare(place: Place, target: string): Promise<Prepared> {
    const { ref, kind, resource } = place;
    const found = await live.get(ref);
    await requireHope(found, place, target);
    const watched = watchedBy(found.provider, { resourceKind: kind, resource });
    return { found, watched, address: await urls.of(found.integration) };
  }

  async function callWatch(
    { found, watched, address }: Prepared,
    asked: StoredChannel,
    token: string,
  ): Promise<WatchVerdict | Unsent> {
    const { rules, watch, resource } = watched;
    if (watch.watch === undefined) throw new Error("a resource that can be watched says how");
    const expirationMs = askedExpirationMs(rules, asked.askedLifeMs, world.now());
    const expiration = expirationMs === undefined ? undefined : String(expirationMs);
    const values = { id: idOf(asked), address, token, expiration, resource };
    try {
      const answer = await askWith(found, { template: watch.watch, values, deadlineMs: watchWithinMs });
      return watchVerdict(watched, { answer, body: jsonOf(answer), nowMs: world.now() });
    } catch (error) {
      if (error instanceof Unanswered)
        return { kind: error.mayHaveArrived ? "unheard" : "put_off", code: error.reason };
      if (error instanceof Fault && error.code === dead) return { kind: "unsent", code: dead, fault: error };
      if (error instanceof Fault) return { kind: "refused", code: error.code };
      throw error;
    }
  }

  /** What came of a call is written down, and while the store takes nothing it is tried on: the record says `creating` until then. */
  async function noted<T>(write: () => Promise<T>): Promise<T> {
    const until = performance.now() + storePatienceMs;
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || performance.now() > until) throw error;
        log.warn("what came of a channel is not written down yet", { err: error });
        await sleep(storeRetryMs);
      }
    }
  }

  async function watch(
    place: Place,
    wanted: string,
    { alongside, isIdGiven = false }: WatchOptions = {},
  ): Promise<WatchOutcome> {
    let target = wanted;
    let prepared: Prepared;
    try {
      prepared = await prepare(place, target);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const kind = error.status === 400 ? "refused" : "unsent";
      const { code, retryAfterSeconds } = error;
      const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1_000;
      await slots.move(place, (slot) =>
        notMade(slot, target, { kind, code, retryAfterMs, newId: newChannelId() }, now()),
      );
      count("unsent");
      return { kind, code, fault: error };
    }
    const { rules } = prepared.watched;
    const isRenewal = currentOf(await slots.read(place)) !== undefined;
    let id = isRenewal ? newChannelId() : target;
    for (let tries = 1; ; tries += 1) {
      const token = randomBytes(32).toString("base64url");
      const tokenHash = hash("sha256", token);
      const intent = await slots.move(
        place,
        (slot, connection) => {
          if (connection === undefined) return connectionGone(slot, world.now());
          const nowMs = world.now();
          const lifeMs = slot.find((one) => idOf(one) === target)?.askedLifeMs ?? 0;
          return begun(slot, { target, id, tokenHash, untilMs: mayLiveUntilMs(rules, lifeMs, nowMs), nowMs });
        },
        { ...(alongside !== undefined && tries === 1 && { alongside }) },
      );
      const asked = intent?.put.find((one) => idOf(one) === id && one.tokenHash === tokenHash);
      if (asked === undefined) return { kind: "overtaken" };
      // Another keeper gives it up, and may have stopped it before it is there.
      if (!mayAsk(asked, world.now())) return { kind: "overtaken" };
      const verdict = await callWatch(prepared, asked, token);
      if (verdict.kind === "made") {
        let madeAt = now();
        const moved = await noted(() =>
          slots.move(place, (slot) => {
            madeAt = now();
            return made(slot, asked, verdict, madeAt);
          }),
        );
        count("made");
        await stopClaimed(place, moved, { nowMs: madeAt.nowMs });
        return { kind: "made", id };
      }
      if (verdict.kind === "id_taken" && !isIdGiven && tries < maxIds) {
        const newId = newChannelId();
        await noted(() => slots.move(place, (slot) => idRefused(slot, id, newId, now())));
        // What was wanted is wanted under the other id; what is renewed is the same as before.
        if (!isRenewal) target = newId;
        id = newId;
        continue;
      }
      const failed = { ...verdict, kind: verdict.kind === "id_taken" ? ("put_off" as const) : verdict.kind };
      await noted(() => slots.move(place, (slot) => notMade(slot, id, { ...failed, newId: newChannelId() }, now())));
      count(verdict.kind);
      const told = isIdGiven ? verdict : failed;
      const { environment, integration, id: connection } = place.ref;
      log.warn("a provider has made no channel", { environment, integration, connection, code: verdict.code });
      return told;
    }
  }

  const count = (outcome: string) => metrics.channelWatches.inc({ outcome });

  async function callStop(
    place: Place,
    values: { readonly id: string; readonly resourceId: string },
    signal?: AbortSignal,
  ): Promise<StopVerdict> {
    try {
      const found = await live.get(place.ref);
      await requireHope(found, place, values.id);
      const template = found.provider.channel?.stop;
      if (template === undefined) return { kind: "not_stopped", code: "unstoppable", isHopeless: true };
      const answer = await askWith(found, { template, values, deadlineMs: stopWithinMs, signal });
      return stopVerdict({ answer, body: jsonOf(answer), nowMs: world.now() });
    } catch (error) {
      if (error instanceof Unanswered) return { kind: "not_stopped", code: error.reason, isHopeless: false };
      if (error instanceof Fault) {
        const isHopeless = error.code === "unknown_connection" || error.code === "unknown_provider_config";
        return { kind: "not_stopped", code: error.code, isHopeless };
      }
      throw error;
    }
  }

  async function stop(place: Place, { id, resourceId }: { id: string; resourceId: string }, signal?: AbortSignal) {
    const verdict = await callStop(place, { id, resourceId }, signal);
    await noted(() =>
      slots.move(
        place,
        (slot) => (verdict.kind === "stopped" ? stopped(slot, id, world.now()) : notStopped(slot, id, verdict, now())),
        { leavesMetadata: signal !== undefined },
      ),
    );
    metrics.channelStops.inc({ outcome: verdict.kind });
    return verdict;
  }

  /** What is over is over, whatever else there is to do. */
  async function pass(place: Place): Promise<Slot> {
    await slots.move(place, (slot, connection) => {
      const aged = timePasses(slot, now(), newChannelId);
      return connection === undefined ? joined(aged, connectionGone(applied(slot, aged), world.now())) : aged;
    });
    return slots.read(place);
  }

  async function stopClaimed(place: Place, moved: Moved | undefined, { nowMs, signal }: Claim): Promise<void> {
    if (moved === undefined) return;
    const tasks = claimedIn(moved, await slots.read(place), nowMs);
    await Promise.all(tasks.map((task) => stop(place, task, signal)));
  }

  return {
    watch,
    stop,
    stopClaimed,
    async tend(place, signal) {
      let retryAfterMs: number | undefined;
      const slot = await pass(place);
      for (const task of tasksOf(slot, world.now())) {
        if (signal?.aborted === true) break;
        const came = task.ask === "stop" ? await stop(place, task) : await watch(place, task.id);
        if ("retryAfterMs" in came && came.retryAfterMs !== undefined)
          retryAfterMs = Math.max(retryAfterMs ?? 0, came.retryAfterMs);
        if (came.kind === "made") break;
      }
      return { retryAfterMs };
    },
  };
}
