import type { ScriptHost } from "../../core/scripts/script.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { CredentialsRoom } from "../credentials/open.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createCatchUp } from "../syncs/catch-up.ts";
import type { Syncs } from "../syncs/syncs.ts";
import { createChannelCalls } from "./calls.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { createChannelScans } from "./channel-scans.ts";
import { type Channels, createChannels } from "./channels.ts";
import { type ChannelScheduler, createChannelScheduler } from "./scheduler.ts";
import { type ChannelSlots, createChannelSlots } from "./slots.ts";
import { type ChannelTokens, openChannelTokens } from "./tokens.ts";

/** Notification channels: creates and renews them, and checks their notifications by their tokens. */
export interface ChannelRoom {
  readonly slots: ChannelSlots;
  readonly channels: Channels;
  readonly scheduler: ChannelScheduler;
  readonly tokens: ChannelTokens;
}

interface ChannelRoomOptions {
  readonly shared: SharedServices;
  readonly collections: SetupCollections & ConnectionCollections & ChannelCollections;
  readonly connections: Connections;
  readonly credentials: CredentialsRoom;
  readonly syncs: Syncs;
  readonly scripts: ScriptHost;
  readonly publicUrl: () => string;
}

export async function openChannels(options: ChannelRoomOptions): Promise<ChannelRoom> {
  const { shared, collections, connections, credentials, syncs, scripts, publicUrl } = options;
  const { store, webhookUrls: urls, integrations, providers, destinations, events, logs, audit, world } = shared;
  const { live, asks } = credentials;
  const environmentIdOf = (name: string) => destinations.environmentByName(name)?.id ?? "";
  const slots = createChannelSlots({ store, collections, providers, events, logs, environmentIdOf, world });
  const calls = createChannelCalls({ slots, live, asks, urls, world });
  const catchUp = createCatchUp({ scripts, syncs, logs, world });
  const scans = createChannelScans({ store, collections, slots, providers, catchUp, world });
  return {
    slots,
    channels: createChannels({
      store,
      collections,
      slots,
      calls,
      connections,
      integrations,
      providers,
      destinations,
      audit,
      world,
    }),
    scheduler: createChannelScheduler({ store, collections, slots, calls, scans, providers, publicUrl, world }),
    tokens: await openChannelTokens({ store, world }),
  };
}
