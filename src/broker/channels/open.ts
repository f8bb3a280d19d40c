import type { ScriptHost } from "../../core/scripts/script.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { CredentialsRoom } from "../credentials/open.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createCatchUp } from "../syncs/catch-up.ts";
import type { Syncs } from "../syncs/syncs.ts";
import { createChannelCalls } from "./calls.ts";
import { type ChannelClients, createChannelClients } from "./channel-clients.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { type ChannelKeys, createChannelKeys } from "./channel-keys.ts";
import { createChannelScans } from "./channel-scans.ts";
import { type ChannelSignals, createChannelSignals } from "./channel-signals.ts";
import { type Channels, createChannels } from "./channels.ts";
import { createLossReports } from "./loss-reports.ts";
import { type ChannelScheduler, openChannelScheduler } from "./scheduler.ts";
import { type ChannelSlots, createChannelSlots } from "./slots.ts";
import { type ChannelTokens, openChannelTokens } from "./tokens.ts";

/** Notification channels: creates and renews them, and checks their notifications by their tokens. */
export interface ChannelRoom {
  readonly slots: ChannelSlots;
  readonly channels: Channels;
  readonly scheduler: ChannelScheduler;
  readonly tokens: ChannelTokens;
  readonly keys: ChannelKeys;
  readonly signals: ChannelSignals;
  readonly clientToken: ChannelClients["tokenFor"];
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
  const {
    store,
    partitions,
    webhookUrls: urls,
    integrations,
    providers,
    destinations,
    events,
    logs,
    audit,
    world,
  } = shared;
  const { live, asks, tokens: tokenEndpoint } = credentials;
  const environmentIdOf = (name: string) => destinations.environmentByName(name)?.id ?? "";
  const slots = createChannelSlots({ store, collections, providers, events, logs, environmentIdOf, world });
  const clients = createChannelClients({ integrations, providers, tokens: tokenEndpoint, world });
  const calls = createChannelCalls({ slots, live, clients, asks, urls, world });
  const catchUp = createCatchUp({ scripts, syncs, logs, world });
  const reports = createLossReports({ slots, catchUp, world });
  const scans = createChannelScans({ store, collections, slots, providers, reports, world });
  const tokens = await openChannelTokens({ store, world });
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
    scheduler: await openChannelScheduler({
      store,
      collections,
      slots,
      calls,
      tokens,
      partitions,
      scans,
      providers,
      publicUrl,
      world,
    }),
    tokens,
    signals: createChannelSignals({ store, collections, slots, tokens, reports, logs, world }),
    keys: createChannelKeys({ collections, slots, tokens, world }),
    clientToken: clients.tokenFor,
  };
}
