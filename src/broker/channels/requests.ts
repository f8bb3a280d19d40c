import { Fault } from "../../base/fault.ts";
import { RequestFailed, type SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Live, LiveConnection } from "../credentials/live-connections.ts";
import { type ChannelAsk, jsonOf, type ProviderRequests } from "../credentials/provider-requests.ts";
import { reauthorize } from "../credentials/refresh/refresh-faults.ts";
import type { WebhookUrls } from "../setup/webhook-urls.ts";
import { type StopVerdict, stopVerdict, type WatchVerdict, watchVerdict } from "./rules/answer.ts";
import { askedExpirationMs, type WatchRule, watchedBy } from "./rules/rules.ts";
import { idOf, oneOf, shown, type WatchedResource } from "./rules/slot.ts";
import type { ChannelSlots } from "./slots.ts";

/** Requests to a provider about channels, with the credentials of a connection. Nothing here writes to the store. */
export interface ChannelRequests {
  /** Everything that a watch request of a place needs. Rejects with a `Fault` when none can be sent. */
  prepareWatch(place: WatchedResource, target: string): Promise<PreparedWatch>;
  watch(prepared: PreparedWatch, asked: StoredChannel, token: string): Promise<WatchVerdict | WatchNotSent>;
  stop(place: WatchedResource, channel: ChannelAtProvider, signal?: AbortSignal): Promise<StopVerdict>;
}

export interface PreparedWatch {
  readonly found: LiveConnection;
  readonly watched: WatchRule;
  readonly address: string;
}

export interface ChannelAtProvider {
  readonly id: string;
  readonly resourceId: string;
}

export interface WatchNotSent {
  readonly kind: "unsent";
  readonly code: string;
  readonly fault: Fault;
}

interface ChannelRequestsOptions {
  readonly slots: ChannelSlots;
  readonly live: Live;
  readonly asks: ProviderRequests;
  readonly urls: WebhookUrls;
  readonly world: World;
}

/** Less than the time for which a record says `creating`. */
const watchWithinMs = 30_000;
const stopWithinMs = 15_000;
/** No request helps a connection whose end user has to authorize it again. */
const dead = "reauthorization_required";

export function createChannelRequests({ slots, live, asks, urls, world }: ChannelRequestsOptions): ChannelRequests {
  /** Sends a request, and after a 401 once more with newer credentials if there are any. */
  async function send(found: LiveConnection, ask: ChannelAsk): Promise<SmallAnswer> {
    const answer = await asks.ofChannel(found, ask);
    if (answer.status !== 401) return answer;
    const replacement = await live.replacementOf(found).catch((error: unknown) => {
      if (error instanceof Fault && error.code !== dead) return undefined;
      throw error;
    });
    return replacement === undefined ? answer : asks.ofChannel(replacement, ask);
  }

  /**
   * A connection that must be authorized again may still have a valid access token. Once the provider has refused that
   * token for this channel, no further request is sent until there is another.
   */
  async function requireUsable({ connection }: LiveConnection, place: WatchedResource, id: string): Promise<void> {
    if (connection.state !== Connection_State.REAUTHORIZATION_REQUIRED) return;
    const known = oneOf(await slots.read(place), id);
    if (known !== undefined && shown(known).stateReason === dead) throw reauthorize(place.ref, connection.stateReason);
  }

  return {
    async prepareWatch(place, target) {
      const { ref, kind, resource } = place;
      const found = await live.get(ref);
      await requireUsable(found, place, target);
      const watched = watchedBy(found.provider, { resourceKind: kind, resource });
      return { found, watched, address: await urls.of(found.integration) };
    },
    async watch({ found, watched, address }, asked, token) {
      const { rules, watch, resource } = watched;
      if (watch.watch === undefined) throw new Error("a resource that can be watched says how");
      const expirationMs = askedExpirationMs(rules, asked.askedLifeMs, world.now());
      const expiration = expirationMs === undefined ? undefined : String(expirationMs);
      const values = { id: idOf(asked), address, token, expiration, resource };
      try {
        const answer = await send(found, { template: watch.watch, values, deadlineMs: watchWithinMs });
        return watchVerdict(watched, { answer, body: jsonOf(answer), nowMs: world.now() });
      } catch (error) {
        if (error instanceof RequestFailed) {
          return { kind: error.mayHaveArrived ? "unheard" : "put_off", code: error.reason };
        }
        if (error instanceof Fault && error.code === dead) return { kind: "unsent", code: dead, fault: error };
        if (error instanceof Fault) return { kind: "refused", code: error.code };
        throw error;
      }
    },
    async stop(place, { id, resourceId }, signal) {
      try {
        const found = await live.get(place.ref);
        await requireUsable(found, place, id);
        const template = found.provider.channel?.stop;
        if (template === undefined) return { kind: "not_stopped", code: "unstoppable", isHopeless: true };
        const answer = await send(found, { template, values: { id, resourceId }, deadlineMs: stopWithinMs, signal });
        return stopVerdict({ answer, body: jsonOf(answer), nowMs: world.now() });
      } catch (error) {
        if (error instanceof RequestFailed) return { kind: "not_stopped", code: error.reason, isHopeless: false };
        if (error instanceof Fault) {
          const isHopeless = error.code === "unknown_connection" || error.code === "unknown_provider_config";
          return { kind: "not_stopped", code: error.code, isHopeless };
        }
        throw error;
      }
    },
  };
}
