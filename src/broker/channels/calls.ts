import { hash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StoreUnavailable } from "../../store/contract.ts";
import type { Live } from "../credentials/live-connections.ts";
import type { ProviderRequests } from "../credentials/provider-requests.ts";
import type { WebhookUrls } from "../setup/webhook-urls.ts";
import { type ChannelAtProvider, createChannelRequests, type PreparedWatch } from "./requests.ts";
import { timePasses } from "./rules/aging.ts";
import type { StopVerdict, WatchVerdict } from "./rules/answer.ts";
import { begun, idRefused, made, mayAsk, notMade } from "./rules/making.ts";
import { applied, type ChannelChanges, joined } from "./rules/move.ts";
import { mayLiveUntilMs } from "./rules/rules.ts";
import { currentOf, idOf, type Slot, type WatchedResource } from "./rules/slot.ts";
import { connectionGone, notStopped, stopped } from "./rules/stopping.ts";
import { claimedIn, type Task, tasksOf } from "./rules/tasks.ts";
import type { ChannelSlots, MoveOptions } from "./slots.ts";

/** Creates and stops channels at providers. Each request is stored before it is sent, and its outcome after it. */
export interface ChannelCalls {
  /** Applies what time has changed (expired, for example), then sends the requests that are due. */
  tend(place: WatchedResource, signal?: AbortSignal): Promise<StopResult>;
  /** Creates the wanted channel, or the replacement of the current one. */
  watch(place: WatchedResource, target: string, options?: WatchOptions): Promise<WatchOutcome>;
  stop(
    place: WatchedResource,
    task: Pick<Extract<Task, { ask: "stop" }>, "id" | "resourceId">,
    signal?: AbortSignal,
  ): Promise<StopVerdict>;
  /** Stops the channels that the caller has claimed to stop in this move. */
  stopClaimed(place: WatchedResource, moved: ChannelChanges | undefined, claim: Claim): Promise<void>;
}

export interface WatchOptions extends Pick<MoveOptions, "alongside"> {
  /** The caller has chosen the id, so no other may be used. */
  readonly isIdGiven?: boolean;
}

export interface Claim {
  /** When the move was made. */
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface StopResult {
  /** The provider asked to be called again no sooner. */
  readonly retryAfterMs: number | undefined;
}

export type WatchOutcome =
  | { readonly kind: "made"; readonly id: string }
  /** Another process works on the slot. */
  | { readonly kind: "overtaken" }
  | {
      readonly kind: "refused" | "put_off" | "unheard" | "unsent" | "id_taken";
      readonly code: string;
      readonly retryAfterMs?: number | undefined;
      readonly fault?: Fault | undefined;
    };

interface ChannelCallsOptions {
  readonly slots: ChannelSlots;
  readonly live: Live;
  readonly asks: ProviderRequests;
  readonly urls: WebhookUrls;
  readonly world: World;
}

/** Limits the IDs tried when the provider says that an ID is taken, if Latchkey chooses them. */
const maxIds = 3;
const storeRetryMs = 500;
const storePatienceMs = 20_000;

/** 132 random bits, in characters and a length that every known provider takes. */
export const newChannelId = (): string => randomBytes(21).toString("base64url").replace(/^-/, "_");

export function createChannelCalls({ slots, live, asks, urls, world }: ChannelCallsOptions): ChannelCalls {
  const { metrics, log } = world;
  const requests = createChannelRequests({ slots, live, asks, urls, world });
  const now = () => ({ nowMs: world.now(), random: Math.random() });
  const count = (outcome: string) => metrics.channelWatches.inc({ outcome });

  /** Retries while the store takes no writes: until the outcome of a call is stored, its record says `creating`. */
  async function stored<T>(write: () => Promise<T>): Promise<T> {
    const until = performance.now() + storePatienceMs;
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || performance.now() > until) throw error;
        log.warn("the outcome of a channel request is not stored yet", { err: error });
        await sleep(storeRetryMs);
      }
    }
  }

  async function notPrepared(place: WatchedResource, target: string, fault: Fault): Promise<WatchOutcome> {
    const kind = fault.status === 400 ? "refused" : "unsent";
    const { code, retryAfterSeconds } = fault;
    const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1_000;
    await slots.move(place, (slot) =>
      notMade(slot, target, { kind, code, retryAfterMs, newId: newChannelId() }, now()),
    );
    count("unsent");
    return { kind, code, fault };
  }

  async function watch(place: WatchedResource, wanted: string, options: WatchOptions = {}): Promise<WatchOutcome> {
    let prepared: PreparedWatch;
    try {
      prepared = await requests.prepareWatch(place, wanted);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return notPrepared(place, wanted, error);
    }
    return watchPrepared(place, wanted, prepared, options);
  }

  async function watchPrepared(
    place: WatchedResource,
    wanted: string,
    prepared: PreparedWatch,
    { alongside, isIdGiven = false }: WatchOptions,
  ): Promise<WatchOutcome> {
    const isRenewal = currentOf(await slots.read(place)) !== undefined;
    let target = wanted;
    let id = isRenewal ? newChannelId() : target;
    for (let tries = 1; ; tries += 1) {
      const token = randomBytes(32).toString("base64url");
      const asked = await storeIntent(place, { target, id, token, prepared }, tries === 1 ? alongside : undefined);
      // Another process gives the channel up, and may have stopped it before it exists.
      if (asked === undefined || !mayAsk(asked, world.now())) return { kind: "overtaken" };
      const verdict = await requests.watch(prepared, asked, token);
      if (verdict.kind === "made") return storeMade(place, asked, verdict);
      if (verdict.kind === "id_taken" && !isIdGiven && tries < maxIds) {
        const newId = newChannelId();
        await stored(() => slots.move(place, (slot) => idRefused(slot, id, newId, now())));
        // A wanted channel continues under the new id; a renewal still replaces the same channel.
        if (!isRenewal) target = newId;
        id = newId;
        continue;
      }
      const failed = { ...verdict, kind: verdict.kind === "id_taken" ? ("put_off" as const) : verdict.kind };
      await stored(() => slots.move(place, (slot) => notMade(slot, id, { ...failed, newId: newChannelId() }, now())));
      count(verdict.kind);
      const { environment, integration, id: connection } = place.ref;
      log.warn("a provider has made no channel", { environment, integration, connection, code: verdict.code });
      return isIdGiven ? verdict : failed;
    }
  }

  interface WatchIntent {
    readonly target: string;
    readonly id: string;
    readonly token: string;
    readonly prepared: PreparedWatch;
  }

  /** Stores that a watch request is about to be sent. Undefined: the slot has changed, and no request may be sent. */
  async function storeIntent(
    place: WatchedResource,
    { target, id, token, prepared }: WatchIntent,
    alongside: WatchOptions["alongside"],
  ): Promise<StoredChannel | undefined> {
    const tokenHash = hash("sha256", token);
    const intent = await slots.move(
      place,
      (slot, connection) => {
        if (connection === undefined) return connectionGone(slot, world.now());
        const nowMs = world.now();
        const lifeMs = slot.find((one) => idOf(one) === target)?.askedLifeMs ?? 0;
        const untilMs = mayLiveUntilMs(prepared.watched.rules, lifeMs, nowMs);
        return begun(slot, { target, id, tokenHash, untilMs, nowMs });
      },
      { ...(alongside !== undefined && { alongside }) },
    );
    return intent?.put.find((one) => idOf(one) === id && one.tokenHash === tokenHash);
  }

  async function storeMade(
    place: WatchedResource,
    asked: StoredChannel,
    verdict: Extract<WatchVerdict, { kind: "made" }>,
  ): Promise<WatchOutcome> {
    let madeAt = now();
    const moved = await stored(() =>
      slots.move(place, (slot) => {
        madeAt = now();
        return made(slot, asked, verdict, madeAt);
      }),
    );
    count("made");
    await stopClaimed(place, moved, { nowMs: madeAt.nowMs });
    return { kind: "made", id: idOf(asked) };
  }

  async function stop(place: WatchedResource, { id, resourceId }: ChannelAtProvider, signal?: AbortSignal) {
    const verdict = await requests.stop(place, { id, resourceId }, signal);
    await stored(() =>
      slots.move(
        place,
        (slot) => (verdict.kind === "stopped" ? stopped(slot, id, world.now()) : notStopped(slot, id, verdict, now())),
        { leavesMetadata: signal !== undefined },
      ),
    );
    metrics.channelStops.inc({ outcome: verdict.kind });
    return verdict;
  }

  /** Ends channels whose time has passed, whatever else is due. */
  async function applyTime(place: WatchedResource): Promise<Slot> {
    await slots.move(place, (slot, connection) => {
      const aged = timePasses(slot, now(), newChannelId);
      return connection === undefined ? joined(aged, connectionGone(applied(slot, aged), world.now())) : aged;
    });
    return slots.read(place);
  }

  async function stopClaimed(
    place: WatchedResource,
    moved: ChannelChanges | undefined,
    { nowMs, signal }: Claim,
  ): Promise<void> {
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
      const slot = await applyTime(place);
      for (const task of tasksOf(slot, world.now())) {
        if (signal?.aborted === true) break;
        const outcome = task.ask === "stop" ? await stop(place, task) : await watch(place, task.id);
        if ("retryAfterMs" in outcome && outcome.retryAfterMs !== undefined) {
          retryAfterMs = Math.max(retryAfterMs ?? 0, outcome.retryAfterMs);
        }
        if (outcome.kind === "made") break;
      }
      return { retryAfterMs };
    },
  };
}
