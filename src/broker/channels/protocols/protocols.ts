import type { WatchableResource } from "../../../gen/latchkey/v1/provider_pb.ts";
import { createInPlaceChannels } from "./in-place.ts";
import type { ChannelProtocol, ProtocolServices } from "./protocol.ts";
import { createProtocolRequests } from "./protocol-requests.ts";
import { createSuccessiveChannels } from "./successive.ts";

/**
 * Kinds of channels. `successive`: a channel is renewed by a successor that replaces it. `in_place`: the provider
 * extends it.
 */
export type ChannelKind = "successive" | "in_place";

export type ChannelProtocols = { readonly [K in ChannelKind]: ChannelProtocol };

export function createChannelProtocols(services: ProtocolServices): ChannelProtocols {
  const requests = createProtocolRequests({ send: services.send, now: services.world.now });
  const successive = createSuccessiveChannels(services, requests);
  return { successive, in_place: createInPlaceChannels(services, { requests, successive }) };
}

/** Returns the kind of a resource's channels. */
export const channelKindOf = ({ renew }: Pick<WatchableResource, "renew">): ChannelKind =>
  renew === undefined ? "successive" : "in_place";
