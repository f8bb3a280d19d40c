import { Fault } from "../../base/fault.ts";
import { RequestFailed } from "../../base/small-requests.ts";
import { Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Live, LiveConnection } from "../credentials/live-connections.ts";
import type { ProviderRequests } from "../credentials/provider-requests.ts";
import { reauthorize } from "../credentials/refresh/refresh-faults.ts";
import type { ChannelClients } from "./channel-clients.ts";
import type { SendChannelRequest, StopVerdict } from "./protocols/protocol.ts";
import { channelOf, findChannel, isOfIntegration, type WatchedResource } from "./rules/slot.ts";
import type { ChannelSlots } from "./slots.ts";

/** Requests to a provider about channels, with the credentials of a connection. Nothing here writes to the store. */
export interface ChannelRequests {
  /** Finds the connection for a request about this channel. Rejects with a `Fault` when none can be sent. */
  usable(watched: WatchedResource, id: string): Promise<LiveConnection>;
  readonly send: SendChannelRequest;
}

interface ChannelRequestsOptions {
  readonly slots: Pick<ChannelSlots, "read">;
  readonly live: Live;
  readonly clients: ChannelClients;
  readonly asks: ProviderRequests;
}

/** No request helps a connection whose end user has to authorize it again. */
export const authorizationNeeded = "reauthorization_required";

export const createChannelRequests = ({ slots, live, clients, asks }: ChannelRequestsOptions): ChannelRequests => ({
  async usable(watched, id) {
    if (isOfIntegration(watched)) return clients.asClient(await clients.ofIntegration(watched.ref));
    const found = await live.get(watched.ref);
    if (isAskedByApp(found)) return clients.asClient(found);
    const { state, stateReason } = found.connection;
    if (state !== Connection_State.REAUTHORIZATION_REQUIRED) return found;
    // A connection that must be authorized again may still have a valid access token. Once the provider has refused
    // that token for this channel, no further request is sent until there is another.
    const known = findChannel(await slots.read(watched), id);
    const isRefused = known !== undefined && channelOf(known).stateReason === authorizationNeeded;
    if (isRefused) throw reauthorize(watched.ref, stateReason);
    return found;
  },
  async send(found, request) {
    const answer = await asks.ofChannel(found, request);
    if (answer.status !== 401) return answer;
    if (isAskedByApp(found)) {
      const other = await clients.again(found);
      return other === undefined ? answer : asks.ofChannel(other, request);
    }
    const replacement = await live.replacementOf(found).catch((error: unknown) => {
      if (error instanceof Fault && error.code !== authorizationNeeded) return undefined;
      throw error;
    });
    return replacement === undefined ? answer : asks.ofChannel(replacement, request);
  },
});

const isAskedByApp = ({ provider }: LiveConnection): boolean => (provider.channel?.authorization ?? "") !== "";

/** Returns the verdict about a stop request that has no response; rethrows errors of Latchkey's own. */
export function stopNotSent(error: unknown): StopVerdict {
  if (error instanceof RequestFailed) return { kind: "not_stopped", code: error.reason, isHopeless: false };
  if (!(error instanceof Fault)) throw error;
  const isHopeless = error.code === "unknown_connection" || error.code === "unknown_provider_config";
  return { kind: "not_stopped", code: error.code, isHopeless };
}
