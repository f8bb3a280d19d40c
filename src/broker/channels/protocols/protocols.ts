import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { ChannelProtocol, ProtocolServices } from "./protocol.ts";
import { createSuccessiveChannels } from "./successive.ts";

/**
 * Kinds of channels. `successive`: Latchkey chooses the id, and a channel is renewed by a successor that replaces it.
 */
export type ChannelKind = "successive";

export type ChannelProtocols = { readonly [K in ChannelKind]: ChannelProtocol };

export const createChannelProtocols = (services: ProtocolServices): ChannelProtocols => ({
  successive: createSuccessiveChannels(services),
});

/** Returns the kind of a provider's channels. All providers have the same kind so far. */
export const channelKindOf = (_provider: Pick<Provider, "channel">): ChannelKind => "successive";
