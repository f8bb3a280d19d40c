import type { ScriptHost } from "../core/script.ts";
import { createCatchUp } from "./catch-up.ts";
import { createChannelCalls } from "./channel-calls.ts";
import { type ChannelKeeper, createChannelKeeper } from "./channel-keeper.ts";
import { createChannelLooks } from "./channel-looks.ts";
import { type ChannelSlots, createChannelSlots } from "./channel-slots.ts";
import { type ChannelTokens, openChannelTokens } from "./channel-tokens.ts";
import { type Channels, createChannels } from "./channels.ts";
import type { Connections } from "./connections.ts";
import type { Ground } from "./ground.ts";
import type { JoinedRenewal } from "./joined-renewal.ts";
import type { Syncs } from "./syncs.ts";
import type { WebhookUrls } from "./webhook-urls.ts";

/** The channels that notifications come over: made, kept, listened to, and proven by their tokens. */
export interface JoinedChannels {
  readonly slots: ChannelSlots;
  readonly channels: Channels;
  readonly keeper: ChannelKeeper;
  readonly tokens: ChannelTokens;
}

interface ChannelsOptions {
  readonly ground: Ground;
  readonly connections: Connections;
  readonly renewal: JoinedRenewal;
  readonly syncs: Syncs;
  readonly scripts: ScriptHost;
  readonly urls: WebhookUrls;
  readonly publicUrl: () => string;
}

export async function joinChannels(options: ChannelsOptions): Promise<JoinedChannels> {
  const { ground, connections, renewal, syncs, scripts, urls, publicUrl } = options;
  const { store, collections, integrations, providers, destinations, events, logs, audit, world } = ground;
  const { live, asks } = renewal;
  const environmentIdOf = (name: string) => destinations.environmentByName(name)?.id ?? "";
  const slots = createChannelSlots({ store, collections, providers, events, logs, environmentIdOf, world });
  const calls = createChannelCalls({ slots, live, asks, urls, world });
  const catchUp = createCatchUp({ scripts, syncs, logs, world });
  const looks = createChannelLooks({ store, collections, slots, providers, catchUp, world });
  return {
    slots,
    channels: createChannels({
      ...{ store, collections, integrations, providers },
      ...{ slots, calls, connections, destinations, audit, world },
    }),
    keeper: createChannelKeeper({ store, collections, slots, calls, looks, providers, publicUrl, world }),
    tokens: await openChannelTokens({ store, world }),
  };
}
