import type { Send } from "../base/sending.ts";
import type { World } from "../base/world.ts";
import type { Declared } from "../core/declared.ts";
import { type ScriptHost, type ScriptLimits, usualScriptLimits } from "../core/script.ts";
import type { StoredChannel } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Destination } from "../gen/latchkey/v1/webhook_pb.ts";
import type { Backend, StoreStatus } from "../store/contract.ts";
import { endAllLeases } from "../store/leases.ts";
import type { SealedStore } from "../store/sealed.ts";
import { type Access, openAccess } from "./access.ts";
import { type Actions, createActions } from "./actions.ts";
import { type Attachments, createAttachments } from "./attachments.ts";
import { type Audit, createAudit } from "./audit.ts";
import { type Authorizations, createAuthorizations } from "./authorize.ts";
import { createCatchUp } from "./catch-up.ts";
import { createChannelCalls } from "./channel-calls.ts";
import { createChannelKeeper } from "./channel-keeper.ts";
import { createChannelLooks } from "./channel-looks.ts";
import { createChannelSlots } from "./channel-slots.ts";
import { openChannelTokens } from "./channel-tokens.ts";
import { type Channels, createChannels } from "./channels.ts";
import { createCollections } from "./collections.ts";
import { deletingInOrder } from "./connection-deletion.ts";
import { createConnectionRequests } from "./connection-request.ts";
import { type Connections, createConnections } from "./connections.ts";
import { createDeclarations } from "./declarations.ts";
import { createDeliveries, type DeliveryLimits } from "./deliver.ts";
import { destinationList } from "./destination-list.ts";
import { type Destinations, openDestinations } from "./destinations.ts";
import { createEnvironments, type Environments } from "./environments.ts";
import { createEvents } from "./events.ts";
import { createExplain, type Explain } from "./explain.ts";
import { type FeedRequest, type FeedStep, feed } from "./feed.ts";
import { createForwardBodies } from "./forward-bodies.ts";
import { createForwards, type Forwards } from "./forwards.ts";
import { type ConnectionHealth, createConnectionHealth } from "./health.ts";
import { type Retention, startHousekeeping } from "./housekeeping.ts";
import { createImports, type Imports } from "./imports.ts";
import { createIntegrations, type Integrations } from "./integrations.ts";
import { createKeeper } from "./keeper.ts";
import { createListing, type Listing } from "./listing.ts";
import { type Live, openLive } from "./live.ts";
import { createLiveGrants } from "./live-grants.ts";
import { createLogs, type Logs } from "./logs.ts";
import { createLookupFields } from "./lookup-fields.ts";
import { openLookupFiling } from "./lookup-filing.ts";
import { createNotificationProofs } from "./notification-proofs.ts";
import { createNotifications, type Notifications } from "./notifications.ts";
import { createNotifiedSyncs } from "./notified-syncs.ts";
import { createNumbers } from "./numbers.ts";
import { type Origins, openOrigins } from "./origins.ts";
import { openOutbox } from "./outbox.ts";
import { type Outcomes, openOutcomes } from "./outcomes.ts";
import { createProviderAsks } from "./provider-asks.ts";
import { openProviders, type Providers } from "./providers.ts";
import { createRefresher } from "./refresh.ts";
import { openResources, type Resources } from "./resources.ts";
import { createRunExecution } from "./run-execution.ts";
import { openRunKeeper, type RunLimits, usualRunLimits } from "./run-keeper.ts";
import { createRunNow, type RunNow } from "./run-now.ts";
import { createRuns, type Runs } from "./runs.ts";
import { createScriptHooks } from "./script-hooks.ts";
import { createScriptRequests } from "./script-requests.ts";
import { createScriptToolbox } from "./script-tools.ts";
import { createScriptVariables, type ScriptVariables } from "./script-variables.ts";
import { createSessions, type Sessions } from "./sessions.ts";
import { createSignerKeys } from "./signer-keys.ts";
import { openSigningSecrets, type SigningSecrets } from "./signing-secrets.ts";
import { createSyncRecords, type SyncRecords } from "./sync-records.ts";
import { createSyncs, type Syncs } from "./syncs.ts";
import type { TokenEndpoint } from "./token-endpoint.ts";
import { createTokenEndpoint } from "./token-requests.ts";
import { createTouches } from "./touches.ts";
import { openUnwellCount } from "./unwell-count.ts";
import { createUpkeep, type Upkeep } from "./upkeep.ts";
import { type WebhookFeedRequest, type WebhookStep, webhookFeed } from "./webhook-feed.ts";
import { openWebhookReceivers, type WebhookReceivers } from "./webhook-receivers.ts";
import { createWebhookUrls, type WebhookUrls } from "./webhook-urls.ts";
import { createWebhooks, type WebhookLimits, type Webhooks } from "./webhooks.ts";

/** The verbs, joined. Faces call these and know nothing of the store. */
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
  readonly sessions: Sessions;
  readonly authorizations: Authorizations;
  readonly origins: Origins;
  readonly outcomes: Outcomes;
  readonly listing: Listing;
  readonly live: Live;
  readonly resources: Resources;
  readonly attachments: Attachments;
  readonly explain: Explain;
  /** What providers are asked for tokens. */
  readonly tokens: TokenEndpoint;
  readonly webhookUrls: WebhookUrls;
  readonly webhooks: Webhooks;
  readonly webhookReceivers: WebhookReceivers;
  readonly notifications: Notifications;
  readonly forwards: Forwards;
  readonly destinations: Destinations;
  readonly destinationsOf: (environment: string) => readonly Destination[];
  /** The customer's scripts. */
  readonly scripts: ScriptHost;
  readonly syncs: Syncs;
  readonly runs: Runs;
  readonly actions: Actions;
  readonly runNow: RunNow;
  readonly variables: ScriptVariables;
  /** What syncs save. */
  readonly records: SyncRecords;
  readonly feeds: {
    readonly connections: (request: FeedRequest) => AsyncGenerator<FeedStep<Connection>>;
    readonly channels: (request: FeedRequest) => AsyncGenerator<FeedStep<StoredChannel>>;
    readonly integrations: (request: FeedRequest) => AsyncGenerator<FeedStep<Integration>>;
    readonly webhooks: (request: WebhookFeedRequest) => AsyncGenerator<WebhookStep>;
  };
  /** Fields of a JSON route that it does not know: SDKs send keys of their own. */
  readonly countIgnored: (route: string, count: number) => void;
  readonly storeStatus: () => StoreStatus;
  readonly upkeep: Upkeep;
  readonly declare: (declared: Declared) => Promise<void>;
  readonly retain: (retention: Retention) => void;
  readonly configureWebhooks: (limits: WebhookLimits & DeliveryLimits) => void;
  /** What is done once a minute, now. */
  readonly keepHouse: () => Promise<void>;
  /** What is due of scripts, and what that brings about. */
  readonly keepRuns: () => Promise<void>;
  /** Of it, what is due of channels. */
  readonly keepChannels: () => Promise<void>;
  /** Takes up nothing more of what another replica can do as well, and lets go of it. What is asked for is still done. */
  retire(): Promise<void>;
  close(): Promise<void>;
}

interface BrokerOptions {
  readonly store: SealedStore;
  /** What the store lies in, for what looks after it as a whole. */
  readonly backend: Backend;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly publicUrl: () => string;
  readonly retention: Retention;
  /** The way to providers, for requests of our own. */
  readonly send: Send;
  /** The way to the environments' own forward addresses. */
  readonly sendToApplication: Send;
  readonly webhooks: WebhookLimits & DeliveryLimits;
  /** As usual where it is not said. */
  readonly runs?: RunLimits & { readonly limits: ScriptLimits };
  readonly refreshLeaseMs?: number | undefined;
  readonly deliveryLeaseMs?: number | undefined;
  readonly runLeaseMs?: number | undefined;
  readonly scripts: ScriptHost;
  readonly world: World;
}

export async function openBroker(options: BrokerOptions): Promise<Broker> {
  const { store, backend, catalogue, publicUrl, retention, send, sendToApplication, refreshLeaseMs, scripts, world } =
    options;
  if (!backend.isShared) await endAllLeases(store);
  const lookupFields = createLookupFields();
  const collections = createCollections(store, { fieldsOf: lookupFields.of });
  const touches = createTouches({ store, world });
  const audit = createAudit({ collections, world });
  const access = await openAccess({ store, collections, touches, audit, world });
  const providers = await openProviders({ store, collections, catalogue, audit, world });
  lookupFields.askOf(providers);
  const signingSecrets = await openSigningSecrets({ store, collections, audit, world });
  const environments = createEnvironments({ store, collections, access, signingSecrets, audit, world });
  const integrations = createIntegrations({ store, collections, providers, audit, world });
  const logs = createLogs({ store, collections, world });
  const destinations = await openDestinations({ store, collections, audit, world });
  const bodies = createForwardBodies(collections);
  const forwards = createForwards({ store, collections, destinations, bodies, audit, world });
  const events = createEvents({ forwards, world });
  const stored = { store, collections, integrations, providers };
  const health = createConnectionHealth({ ...stored, logs, events, world });
  const connections = createConnections({
    ...{ ...stored, touches, health, events, audit, world },
    scriptedRemoval: (ref) => syncs.removedFor(ref),
  });
  const webhookUrls = createWebhookUrls({ environments, publicUrl });
  const records = createSyncRecords({ store, collections, connections, world });
  const runs = createRuns({ store, collections, destinations, audit, world });
  const syncs: Syncs = createSyncs({ ...stored, scripts, runs, connections, destinations, records, audit, world });

  const numbers = createNumbers(store);
  const environmentIdOf = (name: string) => destinations.environmentByName(name)?.id ?? "";
  const slots = createChannelSlots({ store, collections, providers, events, logs, environmentIdOf, world });
  const attachments = createAttachments(world);
  const tokens = createTokenEndpoint({ send, world });
  const askWith = createConnectionRequests({ attachments, send, world });
  const asks = createProviderAsks({ askWith, world });
  const grants = createLiveGrants({ collections, logs, world });
  const refresher = createRefresher({
    leaseMs: refreshLeaseMs,
    store,
    health,
    integrations,
    providers,
    tokens,
    grants,
    world,
  });
  const live = await openLive({ store, collections, connections, integrations, providers, touches, refresher, world });
  const variables = createScriptVariables();
  const toolbox = createScriptToolbox({
    ...{ connections, integrations, syncs, urls: webhookUrls, world },
    send: createScriptRequests({ live, askWith, world }),
    runAction: (asked, signal) => actions.run(asked, { signal, isNested: true }),
    variablesOf: variables.of,
  });
  const { limits, ...atOnce } = options.runs ?? { ...usualRunLimits, limits: usualScriptLimits };
  const runNow = createRunNow({ store, scripts, runs, toolbox, destinations, logs, limits, world });
  const hooks = createScriptHooks({ scripts, runs, runNow, live, connections, destinations, world });
  const imports = createImports({
    ...{ ...stored, slots, numbers, health, logs, events, audit, world },
    scripted: async ({ ref, isNew, runHooks }) => [
      ...(isNew ? await syncs.addedFor(ref, world.now()) : []),
      ...(runHooks ? hooks.created(ref) : []),
    ],
  });
  const sessions = createSessions({ store, collections, integrations, connections, publicUrl, audit, world });
  const authorizations = createAuthorizations({
    store,
    collections,
    environments,
    integrations,
    providers,
    connections,
    sessions,
    imports,
    tokenEndpoint: tokens,
    asks,
    grants,
    hooks,
    logs,
    publicUrl,
    audit,
    world,
  });
  const origins = await openOrigins({ store, collections, world });
  const outcomes = await openOutcomes({ store, collections, world });
  const keeper = createKeeper({ collections, connections, integrations, providers, refresher, world });
  const unwell = await openUnwellCount({ store, world });
  const lookupFiling = await openLookupFiling({ store, collections, fields: lookupFields, world });
  const resources = await openResources({ store, world });
  const outbox = await openOutbox({ store, world });
  const receivers = await openWebhookReceivers({ store, destinations, integrations, providers });
  const tokensOfChannels = await openChannelTokens({ store, world });
  const calls = createChannelCalls({ slots, live, asks, urls: webhookUrls, world });
  const channels = createChannels({ ...stored, slots, calls, connections, destinations, audit, world });
  const catchUp = createCatchUp({ scripts, syncs, logs, world });
  const looks = createChannelLooks({ store, collections, slots, providers, catchUp, world });
  const channelKeeper = createChannelKeeper({ store, collections, slots, calls, looks, providers, publicUrl, world });
  const proofs = createNotificationProofs({ keys: createSignerKeys({ send, world }), tokens: tokensOfChannels, world });
  const notified = createNotifiedSyncs({ scripts, runs, destinations, world });
  const webhooks = createWebhooks({
    ...{
      store,
      collections,
      receivers,
      proofs,
      resources,
      tokens: tokensOfChannels,
      forwards,
      bodies,
      outbox,
      notified,
    },
    ...{ urls: webhookUrls, limits: options.webhooks, world },
  });
  const deliveries = createDeliveries({
    ...{ store, collections, outbox, destinations, bodies, secrets: signingSecrets },
    ...{ send, sendToApplication, limits: options.webhooks, leaseMs: options.deliveryLeaseMs, world },
  });
  const execution = createRunExecution({
    ...{ store, collections, scripts, runs, toolbox, records, live, providers, events, logs, limits, world },
    payloadOf: bodies.payloadOf,
  });
  const runKeeper = await openRunKeeper({
    ...{ store, collections, scripts, runs, execution, destinations, world },
    limits: atOnce,
    leaseMs: options.runLeaseMs,
  });
  const actions: Actions = createActions({ store, scripts, runs, runNow, live, connections, destinations, world });
  const declare = createDeclarations({ environments, access, signingSecrets, variables, integrations, providers });
  const housekeeping = startHousekeeping({ store, collections, health, keeper, destinations, retention, world });
  let retired: Promise<unknown> | undefined;
  const retire = async () => {
    retired ??= Promise.all(
      [runKeeper, channelKeeper, deliveries, housekeeping, lookupFiling].map((one) => one.close()),
    );
    await retired;
  };
  return {
    access,
    audit,
    logs,
    health,
    environments,
    signingSecrets,
    providers,
    integrations,
    connections: deletingInOrder(connections, { channels, hooks }),
    channels,
    imports,
    sessions,
    authorizations,
    origins,
    outcomes,
    live,
    resources,
    attachments,
    explain: createExplain({ live, attachments }),
    tokens,
    listing: createListing(collections),
    webhookUrls,
    webhooks,
    webhookReceivers: receivers,
    notifications: createNotifications({ collections, destinations }),
    forwards,
    destinations,
    destinationsOf: (environment) => destinationList(environment, { outbox, destinations, deliveries, world }),
    records,
    scripts,
    syncs,
    runs,
    actions,
    runNow,
    variables,
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
      authorizations.resume();
      // Not before it is known where to, and with what it is signed.
      await deliveries.start();
      channelKeeper.start();
      runKeeper.start();
    },
    retain: (wanted) => housekeeping.retain(wanted),
    configureWebhooks(limits) {
      webhooks.configure(limits);
      deliveries.configure(limits);
    },
    keepHouse: async () => {
      await housekeeping.run();
      await lookupFiling.run();
      await channelKeeper.run();
    },
    keepRuns: () => runKeeper.run(),
    keepChannels: () => channelKeeper.run(),
    retire,
    async close() {
      await retire();
      tokensOfChannels.close();
      outbox.close();
      receivers.close();
      destinations.close();
      outcomes.close();
      origins.close();
      await authorizations.close();
      resources.close();
      unwell.close();
      await refresher.close();
      live.close();
      providers.close();
      signingSecrets.close();
      access.close();
      await touches.close();
    },
  };
}
