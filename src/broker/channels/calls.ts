import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Condition } from "../../store/contract.ts";
import type { Live, LiveConnection } from "../credentials/live-connections.ts";
import type { ProviderRequests } from "../credentials/provider-requests.ts";
import type { WebhookUrls } from "../setup/webhook-urls.ts";
import type { ChannelClients } from "./channel-clients.ts";
import { createChannelRequests, stopNotSent } from "./channel-requests.ts";
import type {
  ChannelStop,
  ChannelWatch,
  ChannelWatchOptions,
  ProtocolServices,
  StopVerdict,
  WatchOutcome,
} from "./protocols/protocol.ts";
import { channelKindOf, createChannelProtocols } from "./protocols/protocols.ts";
import { ageSlot } from "./rules/aging.ts";
import { newChannelId } from "./rules/channel-id.ts";
import { recordNotMade } from "./rules/making.ts";
import { applyChanges, type ChannelChanges, mergeChanges } from "./rules/move.ts";
import { type WatchRule, watchRuleFor } from "./rules/rules.ts";
import type { Slot, WatchedResource } from "./rules/slot.ts";
import { recordConnectionGone, recordNotStopped, recordStopped } from "./rules/stopping.ts";
import { claimedIn, tasksOf } from "./rules/tasks.ts";
import type { ChannelOwner, ChannelSlots } from "./slots.ts";
import { storeOutcome } from "./store-outcome.ts";

/** Creates, renews and stops channels at providers, each in the way of its kind. */
export interface ChannelCalls {
  /** Applies what time has changed (expired, for example), then sends the requests that are due. */
  tend(watched: WatchedResource, context: TendContext): Promise<TendResult>;
  /** Creates the wanted channel, or renews the current one. */
  watch(watched: WatchedResource, target: string, options?: ChannelWatchOptions): Promise<WatchOutcome>;
  /** Stops the channels that the caller has claimed to stop in this change. */
  stopClaimed(watched: WatchedResource, changes: ChannelChanges | undefined, claim: StopClaim): Promise<void>;
}

export interface StopClaim {
  /** When the change was made. */
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface TendContext {
  /** The fence of the channel's partition, for commits before a request is sent. */
  readonly fence: Condition;
  readonly signal: AbortSignal;
}

export interface TendResult {
  /** The provider asked to be called again no sooner. */
  readonly retryAfterMs: number | undefined;
}

interface ChannelCallsOptions {
  readonly slots: ChannelSlots;
  readonly live: Live;
  readonly clients: ChannelClients;
  readonly asks: ProviderRequests;
  readonly urls: WebhookUrls;
  readonly world: World;
}

export function createChannelCalls(options: ChannelCallsOptions): ChannelCalls {
  const { slots, live, clients, asks, urls, world } = options;
  const { metrics, log } = world;
  const now = () => ({ nowMs: world.now(), random: Math.random() });
  const requests = createChannelRequests({ slots, live, clients, asks });
  const { send } = requests;
  const stopReplaced: ProtocolServices["stopReplaced"] = (at, changes, nowMs) => stopClaimed(at, changes, { nowMs });
  const protocols = createChannelProtocols({ slots, send, stopReplaced, world });

  async function notPrepared(watched: WatchedResource, target: string, fault: Fault): Promise<WatchOutcome> {
    const kind = fault.status === 400 ? "refused" : "unsent";
    const { code, retryAfterSeconds } = fault;
    const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1_000;
    const failure = { kind, code, retryAfterMs, newId: newChannelId() } as const;
    await slots.move(watched, (slot) => recordNotMade(slot, target, failure, now()));
    metrics.channelWatches.inc({ outcome: "unsent" });
    return { kind, code, fault };
  }

  async function watch(
    watched: WatchedResource,
    target: string,
    options: ChannelWatchOptions = {},
  ): Promise<WatchOutcome> {
    let request: ChannelWatch;
    try {
      const found = await requests.usable(watched, target);
      const rule = watchRuleFor(found.provider, { resourceKind: watched.kind, resource: watched.resource });
      request = { watched, target, found, rule, address: await urls.of(found.integration), options };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return notPrepared(watched, target, error);
    }
    return protocols[channelKindOf(request.rule.watch)].watch(request);
  }

  async function stop(
    watched: WatchedResource,
    { id, resourceId, providerId }: Pick<ChannelStop, "id" | "resourceId" | "providerId">,
    signal?: AbortSignal,
  ): Promise<StopVerdict> {
    let verdict: StopVerdict;
    try {
      const found = await requests.usable(watched, id);
      const rule = ruleOf(watched, found);
      const address = await urls.of(found.integration);
      const kind = rule === undefined ? "successive" : channelKindOf(rule.watch);
      verdict = await protocols[kind].stop({ watched, found, rule, id, resourceId, providerId, address, signal });
    } catch (error) {
      verdict = stopNotSent(error);
    }
    const after = (slot: Slot) =>
      verdict.kind === "stopped" ? recordStopped(slot, id, world.now()) : recordNotStopped(slot, id, verdict, now());
    await storeOutcome(log, () => slots.move(watched, after, { leavesMetadata: signal !== undefined }));
    metrics.channelStops.inc({ outcome: verdict.kind });
    return verdict;
  }

  /** Ends channels whose time has passed, whatever else is due. */
  async function applyTime(watched: WatchedResource, fence: Condition): Promise<Slot> {
    const age = (slot: Slot, owner: ChannelOwner | undefined) => {
      const aged = ageSlot(slot, now(), newChannelId);
      return owner === undefined
        ? mergeChanges(aged, recordConnectionGone(applyChanges(slot, aged), world.now()))
        : aged;
    };
    await slots.move(watched, age, { fence });
    return slots.read(watched);
  }

  async function stopClaimed(
    watched: WatchedResource,
    changes: ChannelChanges | undefined,
    { nowMs, signal }: StopClaim,
  ): Promise<void> {
    if (changes === undefined) return;
    const tasks = claimedIn(changes, await slots.read(watched), nowMs);
    await Promise.all(tasks.map((task) => stop(watched, task, signal)));
  }

  return {
    watch,
    stopClaimed,
    async tend(watched, { fence, signal }) {
      let retryAfterMs: number | undefined;
      const slot = await applyTime(watched, fence);
      for (const task of tasksOf(slot, world.now())) {
        if (signal.aborted) break;
        const outcome = task.ask === "stop" ? await stop(watched, task) : await watch(watched, task.id, { fence });
        if ("retryAfterMs" in outcome && outcome.retryAfterMs !== undefined) {
          retryAfterMs = Math.max(retryAfterMs ?? 0, outcome.retryAfterMs);
        }
        if (outcome.kind === "made") break;
      }
      return { retryAfterMs };
    },
  };
}

/** Returns the rule of a slot as the provider describes it now; undefined: it does not any more. */
function ruleOf({ kind, resource }: WatchedResource, { provider }: LiveConnection): WatchRule | undefined {
  try {
    return watchRuleFor(provider, { resourceKind: kind, resource });
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}
