import type { SendSmallRequest } from "../base/small-requests.ts";
import type { World } from "../base/world.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import type { ScriptHost } from "../core/scripts/script.ts";
import type { StoredChannel } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Destination } from "../gen/latchkey/v1/webhook_pb.ts";
import type { Backend, StoreStatus } from "../store/contract.ts";
import { endAllLeases } from "../store/leases.ts";
import type { SealedStore } from "../store/sealed/sealed.ts";
import type { Audit } from "./audit/audit.ts";
import { createAudit } from "./audit/audit.ts";
import type { Logs } from "./audit/logs.ts";
import { createLogs } from "./audit/logs.ts";
import type { Channels } from "./channels/channels.ts";
import { openChannels } from "./channels/open.ts";
import { createCollections } from "./collections.ts";
import type { Authorizations } from "./connect/authorizations.ts";
import { deletingInOrder } from "./connect/connection-deletion.ts";
import { createConnectionDescriber } from "./connect/describe/connection-describer.ts";
import { openDescriptionScheduler } from "./connect/describe/description-scheduler.ts";
import type { Imports } from "./connect/import/imports.ts";
import { openConnect } from "./connect/open.ts";
import type { Outcomes } from "./connect/outcomes.ts";
import type { ConnectSessions } from "./connect/sessions.ts";
import { type Connections, createConnections } from "./connections/connections.ts";
import { type ConnectionHealth, createConnectionHealth } from "./connections/health/health.ts";
import { openUnwellCount } from "./connections/health/unwell-count.ts";
import { createLookupFields } from "./connections/lookup/lookup-fields.ts";
import type { LookupIndex } from "./connections/lookup/lookup-index.ts";
import { openReindex } from "./connections/lookup/reindex.ts";
import { type ConnectionListing, createConnectionListing } from "./connections/search.ts";
import type { Attachments } from "./credentials/attachments.ts";
import { createExplain, type Explain } from "./credentials/explain.ts";
import type { Live } from "./credentials/live-connections.ts";
import { openCredentials } from "./credentials/open.ts";
import { createDeclarations } from "./declarations.ts";
import type { DeliveryLimits } from "./deliveries/deliver.ts";
import type { Destinations } from "./deliveries/destinations.ts";
import type { Forwards } from "./deliveries/forwards.ts";
import type { Notifications } from "./deliveries/notifications.ts";
import { openDeliveries } from "./deliveries/open.ts";
import { type RetentionPeriods, startHousekeeping } from "./housekeeping.ts";
import type { SyncRecords } from "./records/sync-records.ts";
import type { Access } from "./setup/access.ts";
import type { Environments } from "./setup/environments.ts";
import type { Integrations } from "./setup/integrations.ts";
import { openSetup } from "./setup/open.ts";
import type { Origins } from "./setup/origins.ts";
import type { Providers } from "./setup/providers.ts";
import type { SharedCallbacks } from "./setup/shared-callbacks.ts";
import type { SigningSecrets } from "./setup/signing-secrets.ts";
import { createWebhookUrls, type WebhookUrls } from "./setup/webhook-urls.ts";
import { createLastUsedTimes } from "./stored/last-used.ts";
import { type FeedRequest, type FeedStep, feed } from "./stored/watch-feed.ts";
import type { Actions } from "./syncs/actions.ts";
import { openSyncs, type ScriptsLimits, type SyncRoom } from "./syncs/open.ts";
import type { RunNow } from "./syncs/runs/run-now.ts";
import type { Runs } from "./syncs/runs/runs.ts";
import type { ScriptVariables } from "./syncs/script-variables.ts";
import type { Syncs } from "./syncs/syncs.ts";
import type { TokenEndpoint } from "./tokens/token-endpoint.ts";
import { createUpkeep, type Upkeep } from "./upkeep.ts";
import { openWebhooks } from "./webhooks/open.ts";
import type { WebhookLimits } from "./webhooks/outbox-admission.ts";
import { type WebhookFeedRequest, type WebhookStep, webhookFeed } from "./webhooks/webhook-feed.ts";
import type { WebhookReceivers } from "./webhooks/webhook-receivers.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

/** The operations of all rooms in one object. The APIs call these and know nothing of the store. */
export interface Broker {
  readonly access: Access;
  readonly audit: Audit;
  readonly logs: Logs;
  readonly health: ConnectionHealth;
  readonly environments: Environments;
  readonly signingSecrets: SigningSecrets;
  readonly providers: Providers;
  readonly integrations: Integrations;
  readonly connections: Connections;
  readonly channels: Channels;
  readonly imports: Imports;
  readonly sessions: ConnectSessions;
  readonly authorizations: Authorizations;
  readonly origins: Origins;
  readonly sharedCallbacks: SharedCallbacks;
  readonly outcomes: Outcomes;
  readonly listing: ConnectionListing;
  readonly live: Live;
  readonly resources: LookupIndex;
  readonly attachments: Attachments;
  readonly explain: Explain;
  /** Sends token requests to providers. */
  readonly tokens: TokenEndpoint;
  readonly webhookUrls: WebhookUrls;
  readonly webhooks: Webhooks;
  readonly webhookReceivers: WebhookReceivers;
  readonly notifications: Notifications;
  readonly forwards: Forwards;
  readonly destinations: Destinations;
  readonly destinationsOf: (environment: string) => readonly Destination[];
  readonly scripts: ScriptHost;
  readonly syncs: Syncs;
  readonly runs: Runs;
  readonly actions: Actions;
  readonly runNow: RunNow;
  readonly variables: ScriptVariables;
  /** Records that syncs saved. */
  readonly records: SyncRecords;
  readonly feeds: {
    readonly connections: (request: FeedRequest) => AsyncGenerator<FeedStep<Connection>>;
    readonly channels: (request: FeedRequest) => AsyncGenerator<FeedStep<StoredChannel>>;
    readonly integrations: (request: FeedRequest) => AsyncGenerator<FeedStep<Integration>>;
    readonly webhooks: (request: WebhookFeedRequest) => AsyncGenerator<WebhookStep>;
  };
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
  const { store, backend, publicUrl, send, scripts, world } = options;
  if (!backend.isShared) await endAllLeases(store);
  const lookupFields = createLookupFields();
  const collections = createCollections(store, { fieldsOf: lookupFields.of });
  const touches = createLastUsedTimes({ store, world });
  const audit = createAudit({ collections, world });
  const logs = createLogs({ store, collections, world });
  const setup = await openSetup({
    ...{ store, collections, touches, audit, world },
    catalogue: options.catalogue,
  });
  const { access, environments, integrations, providers, signingSecrets } = setup;
  lookupFields.askOf(providers);
  const outgoing = await openDeliveries({ store, collections, audit, world });
  const { destinations, forwards, events } = outgoing;
  const ground = { store, world, touches, audit, logs, ...setup, ...outgoing };
  const stored = { store, collections, integrations, providers };

  const health = createConnectionHealth({ store, collections, logs, events, world });
  const connections = createConnections({
    ...{ ...stored, touches, health, events, audit, world },
    scriptedRemoval: (ref) => scripted.syncs.removedFor(ref),
  });
  const urls = createWebhookUrls({ environments, publicUrl });

  const renewal = await openCredentials({
    ...{ ground, collections, health, connections, send, leaseMs: options.refreshLeaseMs },
    restorationOf: () => backend.restoration(),
  });
  const { live, attachments, tokens } = renewal;
  const scripted: SyncRoom = await openSyncs({
    ...{ ground, collections, connections, renewal, scripts, urls, limits: options.runs, leaseMs: options.runLeaseMs },
  });
  const { records, runs, syncs, hooks, actions, runNow, variables } = scripted;
  const watched = await openChannels({ ground, collections, connections, renewal, syncs, scripts, urls, publicUrl });
  const { channels } = watched;
  const accounts = await openConnect({
    ...{ ground, collections, health, connections, renewal, slots: watched.slots, hooks, syncs, publicUrl },
  });
  const notified = await openWebhooks({
    ...{ ground, collections, tokens: watched.tokens, scripts, runs, urls, limits: options.webhooks },
    ...{ leaseMs: options.deliveryLeaseMs, send, sendToApplication: options.sendToApplication },
  });

  const descriptions = await openDescriptionScheduler({
    ...{ store, world },
    describer: createConnectionDescriber({ store, collections, live, asks: renewal.asks, logs, audit, world }),
  });
  const unwell = await openUnwellCount({ store, world });
  const lookupFiling = await openReindex({ store, collections, fields: lookupFields, world });
  const housekeeping = startHousekeeping({
    ...{ ...stored, health, keeper: renewal.keeper, destinations, retention: options.retention, world },
  });
  const declare = createDeclarations({ environments, access, signingSecrets, variables, integrations, providers });
  let retired: Promise<unknown> | undefined;
  const retire = async () => {
    retired ??= Promise.all(
      [scripted.keeper, watched.keeper, notified.deliveries, descriptions, housekeeping, lookupFiling].map((one) =>
        one.close(),
      ),
    );
    await retired;
  };
  return {
    ...{ access, audit, logs, health, environments, signingSecrets, providers, integrations, channels },
    connections: deletingInOrder(connections, { channels, hooks }),
    imports: accounts.imports,
    sessions: accounts.sessions,
    authorizations: accounts.authorizations,
    origins: accounts.origins,
    sharedCallbacks: accounts.sharedCallbacks,
    outcomes: accounts.outcomes,
    ...{ live, attachments, tokens },
    explain: createExplain({ live, attachments }),
    listing: createConnectionListing(collections),
    webhookUrls: urls,
    resources: notified.resources,
    webhooks: notified.webhooks,
    webhookReceivers: notified.receivers,
    notifications: notified.notifications,
    destinationsOf: notified.destinationsOf,
    configureWebhooks: notified.configure,
    ...{ forwards, destinations, records, scripts, syncs, runs, actions, runNow, variables },
    feeds: {
      connections: (request) => feed({ store, records: collections.connections, world }, request),
      channels: (request) => feed({ store, records: collections.channels, world }, request),
      integrations: (request) => feed({ store, records: collections.integrations, world }, request),
      webhooks: (request) => webhookFeed({ store, collections, forwards, world }, request),
    },
    countIgnored: (route, count) => {
      if (count > 0) world.metrics.ignoredFields.inc({ route }, count);
    },
    storeStatus: () => store.status(),
    upkeep: createUpkeep({ store, backend, world }),
    declare: async (declared) => {
      await declare(declared);
      lookupFiling.look();
      accounts.authorizations.resume();
      // Deliveries start only now: their destinations and signing secrets are known from here on.
      await notified.deliveries.start();
      watched.keeper.start();
      scripted.keeper.start();
      descriptions.start();
    },
    retain: (wanted) => housekeeping.retain(wanted),
    keepHouse: async () => {
      await housekeeping.run();
      await lookupFiling.run();
      await watched.keeper.run();
    },
    keepRuns: () => scripted.keeper.run(),
    keepChannels: () => watched.keeper.run(),
    describeImported: () => descriptions.run(),
    retire,
    async close() {
      await retire();
      watched.tokens.close();
      notified.close();
      await accounts.close();
      unwell.close();
      await renewal.close();
      destinations.close();
      setup.close();
      await touches.close();
    },
  };
}
