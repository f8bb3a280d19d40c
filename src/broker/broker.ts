import type { SendSmallRequest } from "../base/small-requests.ts";
import type { World } from "../base/world.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import type { ScriptHost } from "../core/scripts/script.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Backend, StoreStatus } from "../store/contract.ts";
import { endAllLeases } from "../store/leases.ts";
import type { SealedStore } from "../store/sealed/sealed.ts";
import { type AuditRoom, openAudit } from "./audit/open.ts";
import { type ChannelRoom, openChannels } from "./channels/open.ts";
import { createCollections } from "./collections.ts";
import { type ConnectRoom, openConnect } from "./connect/open.ts";
import { createLookupFields } from "./connections/lookup/lookup-fields.ts";
import { type ConnectionRoom, openConnections } from "./connections/open.ts";
import { type CredentialsRoom, openCredentials } from "./credentials/open.ts";
import { createDeclarations } from "./declarations.ts";
import type { DeliveryLimits } from "./deliveries/deliver.ts";
import { type DeliveryRoom, openDeliveries } from "./deliveries/open.ts";
import { createFeeds, type Feeds } from "./feeds.ts";
import { type RetentionPeriods, startHousekeeping } from "./housekeeping.ts";
import { openSetup, type SetupRoom } from "./setup/open.ts";
import { createLastUsedTimes } from "./stored/last-used.ts";
import { openSyncs, type ScriptsLimits, type SyncRoom } from "./syncs/open.ts";
import { createUpkeep, type Upkeep } from "./upkeep.ts";
import { openWebhooks, type WebhookRoom } from "./webhooks/open.ts";
import type { WebhookLimits } from "./webhooks/outbox-admission.ts";

/** The operations of all rooms in one object. The APIs call these and know nothing of the store. */
export interface Broker
  extends AuditRoom,
    Omit<SetupRoom, "close">,
    Pick<DeliveryRoom, "destinations" | "forwards">,
    Pick<ConnectionRoom, "health" | "listing">,
    Pick<CredentialsRoom, "live" | "attachments" | "explain" | "tokens">,
    Omit<SyncRoom, "hooks" | "scheduler">,
    Pick<ChannelRoom, "channels">,
    Omit<WebhookRoom, "deliveries" | "configure" | "close">,
    Omit<ConnectRoom, "descriptions" | "close"> {
  readonly scripts: ScriptHost;
  readonly feeds: Feeds;
  /** Counts fields of a JSON request that the route does not know: SDKs send keys of their own. */
  readonly countIgnored: (route: string, count: number) => void;
  readonly storeStatus: () => StoreStatus;
  readonly upkeep: Upkeep;
  readonly declare: (declared: DeclaredSetup) => Promise<void>;
  readonly retain: (retention: RetentionPeriods) => void;
  readonly configureWebhooks: (limits: WebhookLimits & DeliveryLimits) => void;
  /** Runs the housekeeping that is otherwise done once a minute. */
  readonly keepHouse: () => Promise<void>;
  /** Runs what is due of syncs, actions and other scripts, and its consequences. */
  readonly keepRuns: () => Promise<void>;
  /** Runs only what is due of notification channels. */
  readonly keepChannels: () => Promise<void>;
  /** Asks providers about the imported connections that are due, now. */
  readonly describeImported: () => Promise<void>;
  /** Stops and hands over the background work that another replica can do as well. Requests are still served. */
  retire(): Promise<void>;
  close(): Promise<void>;
}

interface BrokerOptions {
  readonly store: SealedStore;
  /** The storage under `store`, for maintenance of the store as a whole. */
  readonly backend: Backend;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly publicUrl: () => string;
  readonly retention: RetentionPeriods;
  /** Sends our own requests to providers. */
  readonly send: SendSmallRequest;
  /** Sends requests to the environments' own forward addresses. */
  readonly sendToApplication: SendSmallRequest;
  readonly webhooks: WebhookLimits & DeliveryLimits;
  /** Default limits if undefined. */
  readonly runs?: ScriptsLimits;
  readonly refreshLeaseMs?: number | undefined;
  readonly deliveryLeaseMs?: number | undefined;
  readonly runLeaseMs?: number | undefined;
  readonly scripts: ScriptHost;
  readonly world: World;
}

export async function openBroker(options: BrokerOptions): Promise<Broker> {
  const { store, backend, catalogue, publicUrl, send, sendToApplication, scripts, world } = options;
  if (!backend.isShared) await endAllLeases(store);
  const lookupFields = createLookupFields();
  const collections = createCollections(store, { fieldsOf: lookupFields.of });
  const touches = createLastUsedTimes({ store, world });
  const { audit, logs } = openAudit({ store, collections, world });
  const setup = await openSetup({ store, collections, catalogue, publicUrl, touches, audit, world });
  const { access, environments, signingSecrets, integrations, providers, webhookUrls } = setup;
  lookupFields.askOf(providers);
  const outgoing = await openDeliveries({ store, collections, audit, world });
  const { destinations, forwards } = outgoing;
  const shared = { store, world, touches, audit, logs, ...setup, ...outgoing };

  const connectionRoom = await openConnections({
    ...{ shared, collections, lookupFields },
    scriptedRemoval: (ref) => scripted.syncs.removedFor(ref),
  });
  const { connections, health, listing, reindex } = connectionRoom;
  const credentials = await openCredentials({
    ...{ shared, collections, health, connections, send, leaseMs: options.refreshLeaseMs },
    restorationOf: () => backend.restoration(),
  });
  const { live, attachments, explain, tokens } = credentials;
  const scripted: SyncRoom = await openSyncs({
    ...{ shared, collections, connections, credentials, scripts, limits: options.runs, leaseMs: options.runLeaseMs },
  });
  const { records, runs, syncs, hooks, actions, runNow, variables } = scripted;
  const channelRoom = await openChannels({ shared, collections, connections, credentials, syncs, scripts, publicUrl });
  const connect = await openConnect({
    ...{ shared, collections, health, connections, credentials, channels: channelRoom, hooks, syncs, publicUrl },
  });
  const webhooks = await openWebhooks({
    ...{ shared, collections, tokens: channelRoom.tokens, scripts, runs, limits: options.webhooks },
    ...{ leaseMs: options.deliveryLeaseMs, send, sendToApplication },
  });

  const housekeeping = startHousekeeping({
    ...{ store, collections, integrations, providers, health, destinations, world },
    ...{ idleRefresh: credentials.idleRefresh, retention: options.retention },
  });
  const declare = createDeclarations({ ...setup, variables });
  const background = [
    ...[scripted.scheduler, channelRoom.scheduler, webhooks.deliveries],
    ...[connect.descriptions, housekeeping, reindex],
  ];
  let retired: Promise<unknown> | undefined;
  const retire = async () => {
    retired ??= Promise.all(background.map((one) => one.close()));
    await retired;
  };
  const { imports, sessions, authorizations, origins, sharedCallbacks, outcomes } = connect;
  const { resources, webhookReceivers, notifications, destinationsOf } = webhooks;
  return {
    ...{ audit, logs, access, environments, signingSecrets, providers, integrations, webhookUrls },
    ...{ destinations, forwards, health, listing, live, attachments, explain, tokens },
    ...{ scripts, records, syncs, runs, actions, runNow, variables, channels: channelRoom.channels },
    ...{ connections: connect.connections, imports, sessions, authorizations, origins, sharedCallbacks, outcomes },
    ...{ resources, webhooks: webhooks.webhooks, webhookReceivers, notifications, destinationsOf },
    feeds: createFeeds({ store, collections, forwards, world }),
    upkeep: createUpkeep({ store, backend, world }),
    countIgnored: (route, count) => {
      if (count > 0) world.metrics.ignoredFields.inc({ route }, count);
    },
    storeStatus: () => store.status(),
    declare: async (declared) => {
      await declare(declared);
      reindex.look();
      authorizations.resume();
      // Deliveries start only now: their destinations and signing secrets are known from here on.
      await webhooks.deliveries.start();
      channelRoom.scheduler.start();
      scripted.scheduler.start();
      connect.descriptions.start();
    },
    retain: (wanted) => housekeeping.retain(wanted),
    configureWebhooks: webhooks.configure,
    keepHouse: async () => {
      await housekeeping.run();
      await reindex.run();
      await channelRoom.scheduler.run();
    },
    keepRuns: () => scripted.scheduler.run(),
    keepChannels: () => channelRoom.scheduler.run(),
    describeImported: () => connect.descriptions.run(),
    retire,
    async close() {
      await retire();
      channelRoom.tokens.close();
      webhooks.close();
      await connect.close();
      connectionRoom.close();
      await credentials.close();
      destinations.close();
      setup.close();
      await touches.close();
    },
  };
}
