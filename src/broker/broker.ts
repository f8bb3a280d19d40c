import type { Send } from "../base/sending.ts";
import type { World } from "../base/world.ts";
import type { Declared } from "../core/declared.ts";
import type { Connection } from "../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Backend, StoreStatus } from "../store/contract.ts";
import type { SealedStore } from "../store/sealed.ts";
import { type Access, openAccess } from "./access.ts";
import { type Attachments, createAttachments } from "./attachments.ts";
import { type Audit, createAudit } from "./audit.ts";
import { type Authorizations, createAuthorizations } from "./authorize.ts";
import { createCollections } from "./collections.ts";
import { type Connections, createConnections } from "./connections.ts";
import { createDeclarations } from "./declarations.ts";
import { createEnvironments, type Environments } from "./environments.ts";
import { createExplain, type Explain } from "./explain.ts";
import { type FeedRequest, type FeedStep, feed } from "./feed.ts";
import { type ConnectionHealth, createConnectionHealth } from "./health.ts";
import { startHousekeeping } from "./housekeeping.ts";
import { createImports, type Imports } from "./imports.ts";
import { createIntegrations, type Integrations } from "./integrations.ts";
import { createKeeper } from "./keeper.ts";
import { createListing, type Listing } from "./listing.ts";
import { type Live, openLive } from "./live.ts";
import { createLiveGrants } from "./live-grants.ts";
import type { LogRetention } from "./log-retention.ts";
import { createLogs, type Logs } from "./logs.ts";
import { createLookupFields } from "./lookup-fields.ts";
import { openLookupFiling } from "./lookup-filing.ts";
import { createNumbers } from "./numbers.ts";
import { type Origins, openOrigins } from "./origins.ts";
import { type Outcomes, openOutcomes } from "./outcomes.ts";
import { createProviderAsks } from "./provider-asks.ts";
import { openProviders, type Providers } from "./providers.ts";
import { createRefresher } from "./refresh.ts";
import { openResources, type Resources } from "./resources.ts";
import { createSessions, type Sessions } from "./sessions.ts";
import type { TokenEndpoint } from "./token-endpoint.ts";
import { createTokenEndpoint } from "./token-requests.ts";
import { createTouches } from "./touches.ts";
import { openUnwellCount } from "./unwell-count.ts";
import { createUpkeep, type Upkeep } from "./upkeep.ts";
import { createWebhookUrls, type WebhookUrls } from "./webhook-urls.ts";

/** The verbs, joined. Faces call these and know nothing of the store. */
export interface Broker {
  readonly access: Access;
  readonly audit: Audit;
  readonly logs: Logs;
  readonly health: ConnectionHealth;
  readonly environments: Environments;
  readonly providers: Providers;
  readonly integrations: Integrations;
  readonly connections: Connections;
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
  readonly feeds: {
    readonly connections: (request: FeedRequest) => AsyncGenerator<FeedStep<Connection>>;
    readonly integrations: (request: FeedRequest) => AsyncGenerator<FeedStep<Integration>>;
  };
  /** Fields of a JSON route that it does not know: SDKs send keys of their own. */
  readonly countIgnored: (route: string, count: number) => void;
  readonly storeStatus: () => StoreStatus;
  readonly upkeep: Upkeep;
  readonly declare: (declared: Declared) => Promise<void>;
  readonly retain: (retention: LogRetention) => void;
  /** What is done once a minute, now. */
  readonly keepHouse: () => Promise<void>;
  close(): Promise<void>;
}

interface BrokerOptions {
  readonly store: SealedStore;
  /** What the store lies in, for what looks after it as a whole. */
  readonly backend: Backend;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly publicUrl: () => string;
  readonly retention: LogRetention;
  /** The way to providers, for requests of our own. */
  readonly send: Send;
  readonly refreshLeaseMs?: number | undefined;
  readonly world: World;
}

export async function openBroker(options: BrokerOptions): Promise<Broker> {
  const { store, backend, catalogue, publicUrl, retention, send, refreshLeaseMs, world } = options;
  const lookupFields = createLookupFields();
  const collections = createCollections(store, { fieldsOf: lookupFields.of });
  const touches = createTouches({ store, world });
  const audit = createAudit({ collections, world });
  const access = await openAccess({ store, collections, touches, audit, world });
  const providers = await openProviders({ store, collections, catalogue, audit, world });
  lookupFields.askOf(providers);
  const environments = createEnvironments({ store, collections, access, audit, world });
  const integrations = createIntegrations({ store, collections, providers, audit, world });
  const logs = createLogs({ store, collections, world });
  const health = createConnectionHealth({ store, collections, integrations, providers, logs, world });
  const connections = createConnections({ store, collections, integrations, providers, touches, health, audit, world });
  const numbers = createNumbers(store);
  const imports = createImports({ store, collections, integrations, providers, numbers, health, audit, world });
  const attachments = createAttachments(world);
  const tokens = createTokenEndpoint({ send, world });
  const asks = createProviderAsks({ attachments, send, world });
  const grants = createLiveGrants({ collections, logs, world });
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
    publicUrl,
    audit,
    world,
  });
  const origins = await openOrigins({ store, collections, world });
  const outcomes = await openOutcomes({ store, collections, world });
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
  const keeper = createKeeper({ collections, connections, integrations, providers, refresher, world });
  const unwell = await openUnwellCount({ store, world });
  const lookupFiling = await openLookupFiling({ store, collections, fields: lookupFields, world });
  const resources = await openResources({ store, world });
  const declare = createDeclarations({ environments, access, integrations, providers });
  const housekeeping = startHousekeeping({ store, collections, health, keeper, retention, world });
  return {
    access,
    audit,
    logs,
    health,
    environments,
    providers,
    integrations,
    connections,
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
    webhookUrls: createWebhookUrls({ environments, publicUrl }),
    feeds: {
      connections: (request) => feed({ store, records: collections.connections, world }, request),
      integrations: (request) => feed({ store, records: collections.integrations, world }, request),
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
    },
    retain: (wanted) => housekeeping.retain(wanted),
    keepHouse: async () => {
      await housekeeping.run();
      await lookupFiling.run();
    },
    async close() {
      outcomes.close();
      origins.close();
      await authorizations.close();
      await housekeeping.close();
      await lookupFiling.close();
      resources.close();
      unwell.close();
      await refresher.close();
      live.close();
      providers.close();
      access.close();
      await touches.close();
    },
  };
}
