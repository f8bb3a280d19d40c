import type { SendSmallRequest } from "../base/small-requests.ts";
import type { World } from "../base/world.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import type { ScriptHost } from "../core/scripts/script.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Backend, StoreStatus } from "../store/contract.ts";
import { endAllLeases } from "../store/leases.ts";
import type { SealedStore } from "../store/sealed/sealed.ts";
import type { AccessSessionTimes } from "./access-sessions/new-session.ts";
import { type AccessSessionRoom, openAccessSessions } from "./access-sessions/open.ts";
import { type ApprovalRoom, openApprovals, withApprovals } from "./approvals/open.ts";
import type { AuditRoom } from "./audit/open.ts";
import { type RetentionPeriods, startBackground } from "./background.ts";
import { openBaseRooms } from "./base-rooms.ts";
import type { CallerRoom } from "./callers.ts";
import { type ChannelRoom, openChannels } from "./channels/open.ts";
import { type ConnectRoom, openConnect } from "./connect/open.ts";
import { type ConnectionRoom, openConnections } from "./connections/open.ts";
import { type CredentialsRoom, openCredentials } from "./credentials/open.ts";
import { createDeclarations } from "./declarations.ts";
import type { DeliveryLimits, DeliveryRoom } from "./deliveries/open.ts";
import { type EdgeRoom, openEdges } from "./edges/open.ts";
import { type EmptyingRoom, openEmptying } from "./emptying/open.ts";
import { type EndUserRoom, openEndUsers } from "./end-users/open.ts";
import { createFeeds, type Feeds } from "./feeds.ts";
import { createHints, type Hints } from "./hints.ts";
import { createLackingScopes, type McpRoom, openMcp } from "./mcp/open.ts";
import { openPolicies, type PolicyRoom } from "./policies/open.ts";
import { openQuotas, type Quotas } from "./quotas/open.ts";
import { createRevocationPlan, openRevocations, type RevocationRoom } from "./revocations/open.ts";
import type { SignInRoom } from "./sign-in/open.ts";
import { openSyncs, type ScriptsLimits, type SyncRoom } from "./syncs/open.ts";
import { type Authorities, openAuthorities, openSystem, type SystemRoom } from "./system/open.ts";
import { openTraffic, type Traffic } from "./traffic/open.ts";
import { openWebhooks, type WebhookLimits, type WebhookRoom } from "./webhooks/open.ts";

/** The operations of all rooms in one object. The APIs call these and know nothing of the store. */
export interface Broker
  extends AuditRoom,
    Omit<CallerRoom, "edgeIdentities" | "close">,
    SignInRoom,
    Pick<AccessSessionRoom, "accessSessions" | "explainAccessSession">,
    Pick<DeliveryRoom, "destinations" | "forwards">,
    Pick<ConnectionRoom, "health" | "listing" | "hostRoutes" | "census">,
    Pick<CredentialsRoom, "live" | "attachments" | "explain" | "asks" | "tokens">,
    Omit<SyncRoom, "hooks" | "scheduler">,
    Pick<ChannelRoom, "channels">,
    Omit<PolicyRoom, "close">,
    Omit<ApprovalRoom, "release" | "close">,
    Pick<RevocationRoom, "listRevocations">,
    Pick<EdgeRoom, "edges" | "edgeAccess">,
    Pick<EndUserRoom, "endUsers">,
    Pick<McpRoom, "mcp" | "clientAnswers" | "sessionSubscriptions">,
    Pick<EmptyingRoom, "emptyings">,
    Omit<WebhookRoom, "deliveries" | "configure" | "close">,
    Omit<ConnectRoom, "descriptions" | "close">,
    SystemRoom {
  readonly scripts: ScriptHost;
  /** The certificate authority of the forward proxy. */
  readonly authorities: Authorities;
  /** Limits of providers, kept together with the other replicas. */
  readonly quotas: Quotas;
  readonly feeds: Feeds;
  readonly hints: Hints;
  readonly traffic: Traffic;
  readonly storeStatus: () => StoreStatus;
  /** Returns the base of redirect and webhook URLs. */
  readonly publicUrl: () => string;
  /** Origin of the dashboard's own listener; empty: the control listener serves it. Undefined: nothing does. */
  readonly dashboardOrigin: () => string | undefined;
  readonly declare: (declared: DeclaredSetup) => Promise<void>;
  readonly retain: (retention: RetentionPeriods) => void;
  readonly configureWebhooks: (limits: WebhookLimits & DeliveryLimits) => void;
  /** Runs the housekeeping that is otherwise done once a minute. */
  readonly keepHouse: () => Promise<void>;
  /** Runs what is due of syncs, actions and other scripts, and its consequences. */
  readonly keepRuns: () => Promise<void>;
  /** Runs only what is due of notification channels. */
  readonly keepChannels: () => Promise<void>;
  /** Runs only what is due of revocations. */
  readonly keepRevocations: () => Promise<void>;
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
  /** Returns what is wrong with the egress proxy; undefined: there is none. */
  readonly egressTrouble?: (() => Promise<string | undefined>) | undefined;
  /** Name of the host or pod. */
  readonly host?: string | undefined;
  readonly dashboardOrigin?: (() => string | undefined) | undefined;
  readonly retention: RetentionPeriods;
  /** Sends our own requests to providers. */
  readonly send: SendSmallRequest;
  /** Sends requests to the environments' own forward addresses. */
  readonly sendToApplication: SendSmallRequest;
  readonly webhooks: WebhookLimits & DeliveryLimits;
  /** Above this size of their index, connections are looked up in the store; by default never. */
  readonly lookupBytes?: number | undefined;
  /** Default limits if undefined. */
  readonly runs?: ScriptsLimits;
  /** Default times if undefined. */
  readonly accessSessions?: AccessSessionTimes | undefined;
  readonly refreshLeaseMs?: number | undefined;
  /** How long a silent replica counts as alive. */
  readonly workTermMs?: number | undefined;
  readonly scripts: ScriptHost;
  /** Keeps the last proxied requests; by default it does. */
  readonly keepsRequests?: boolean | undefined;
  readonly world: World;
}

type Rooms = Awaited<ReturnType<typeof openRooms>>;

/** Opens the rooms from the ground up. Each knows only those opened before it. */
async function openRooms(options: BrokerOptions) {
  const { store, backend, publicUrl, send, sendToApplication, scripts, world } = options;
  const base = await openBaseRooms(options, async (environment) => [
    ...(await accessRoom.accessSessions.deletionOfAll(environment)),
    ...(await approvalRoom.approvals.deletionOfAll(environment)),
  ]);
  const { lookupFields, collections, lastUsed, partitions, auditing, setup, outgoing } = base;
  const { audit } = auditing;
  const shared = { store, world, lastUsed, partitions, ...auditing, ...setup, ...outgoing };
  const planRevocation = createRevocationPlan({ collections, providers: setup.providers, world });
  const connectionRoom = await openConnections({
    shared,
    collections,
    lookupFields,
    scriptedRemoval: (ref) => withApprovals(collections, ref, scripted.syncs.removedFor(ref)),
    planRevocation,
  });
  const { connections, health } = connectionRoom;
  const credentials = await openCredentials({
    shared,
    collections,
    health,
    connections,
    send,
    leaseMs: options.refreshLeaseMs,
    restorationOf: () => backend.restoration(),
  });
  const revocations = await openRevocations({ shared, collections, credentials });
  const policyRoom = await openPolicies({ store, collections, setup, credentials, audit, world });
  const { policyGate, policiesInForce } = policyRoom;
  const { signingSecrets } = setup;
  const approvalRoom = await openApprovals({
    store,
    collections,
    signingSecrets,
    audit,
    events: outgoing.events,
    world,
  });
  const quotas = openQuotas({ store, isShared: backend.isShared, world });
  const { accessSessions: times } = options;
  const accessRoom = await openAccessSessions({ ...shared, collections, setup, times, policies: policiesInForce });
  const authorities = openAuthorities({ store, collections, audit, world });
  const noteLackingScopes = createLackingScopes({ ...shared, health });
  const edges = openEdges({
    ...shared,
    ...accessRoom,
    collections,
    setup,
    policies: policiesInForce,
    live: credentials.live,
    quotas,
    hostRoutes: connectionRoom.hostRoutes,
    authorities,
    noteLackingScopes,
  });
  const common = { shared, collections, connections, credentials };
  const { approvalRequests } = approvalRoom;
  const admission = { policyGate, approvalRequests };
  const scripted: SyncRoom = await openSyncs({ ...common, quotas, ...admission, scripts, limits: options.runs });
  const { syncs, hooks, runs } = scripted;
  const channels = await openChannels({ ...common, syncs, scripts, publicUrl });
  const connect = await openConnect({ ...common, health, channels, hooks, syncs, publicUrl });
  const { listRevocations } = revocations;
  const endUsers = await openEndUsers({ shared, collections, connections: connect.connections, listRevocations });
  const emptying = await openEmptying({ ...options, shared, collections, planRevocation, hooks, ...channels });
  const webhooks = await openWebhooks({
    shared,
    collections,
    connections,
    lookups: { ...collections, ...lookupFields, mostBytes: options.lookupBytes ?? Number.POSITIVE_INFINITY },
    channels,
    scripts,
    runs,
    limits: options.webhooks,
    partitions,
    send,
    sendToApplication,
  });
  return {
    ...base,
    connectionRoom,
    credentials,
    policyRoom,
    approvalRoom,
    revocations,
    quotas,
    accessRoom,
    authorities,
    edges,
    scripted,
    channels,
    connect,
    mcp: openMcp({ ...options, shared, collections, health, noteLackingScopes, connect }),
    endUsers,
    emptying,
    webhooks,
  };
}

export async function openBroker(options: BrokerOptions): Promise<Broker> {
  const { store, backend, scripts, world } = options;
  if (!backend.isShared) await endAllLeases(store);
  const rooms = await openRooms(options);
  const { collections, outgoing, scripted, channels, connect, webhooks } = rooms;
  const background = startBackground(rooms, options);
  const declare = createDeclarations({
    ...rooms.setup,
    variables: scripted.variables,
    mcp: rooms.mcp.declarations,
    policies: rooms.policyRoom.policiesInForce,
  });
  const operations = operationsOf(rooms);
  const system = openSystem({ ...options, ...operations, ...rooms, host: options.host ?? "" });
  return {
    ...operations,
    scripts,
    authorities: rooms.authorities,
    quotas: rooms.quotas,
    feeds: createFeeds({ store, collections, ...outgoing, world }),
    hints: createHints({ ...rooms.setup, listing: rooms.connectionRoom.listing, scripts }),
    ...system,
    traffic: openTraffic({ world, keepsRequests: options.keepsRequests ?? true }),
    storeStatus: () => store.status(),
    publicUrl: options.publicUrl,
    dashboardOrigin: options.dashboardOrigin ?? (() => undefined),
    declare: async (declared) => {
      await declare(declared);
      await background.start();
      system.replicas.start();
    },
    retain: background.housekeeping.retain,
    configureWebhooks: webhooks.configure,
    keepHouse: background.own(background.keepHouse),
    keepRuns: background.own(() => scripted.scheduler.run()),
    keepChannels: background.own(() => channels.scheduler.run()),
    keepRevocations: background.own(() => rooms.revocations.scheduler.run()),
    describeImported: background.own(() => connect.descriptions.run()),
    retire() {
      rooms.approvalRoom.release();
      return background.retire();
    },
    async close() {
      await background.retire();
      rooms.authorities.close();
      await system.replicas.close();
      await rooms.edges.close();
      await rooms.quotas.close();
      await closeRooms(rooms);
    },
  };
}

async function closeRooms(rooms: Rooms) {
  const { lastUsed, partitions, setup, signIn, outgoing, connectionRoom, credentials, channels, connect } = rooms;
  channels.tokens.close();
  rooms.webhooks.close();
  await connect.close();
  connectionRoom.close();
  await credentials.close();
  await rooms.accessRoom.close();
  outgoing.destinations.close();
  signIn.browserSessions.close();
  rooms.policyRoom.close();
  rooms.approvalRoom.close();
  rooms.mcp.clientAnswers.close();
  rooms.mcp.sessionSubscriptions.close();
  setup.close();
  await partitions.close();
  await lastUsed.close();
}

type Operations = Omit<
  Broker,
  | "scripts"
  | "quotas"
  | "feeds"
  | "hints"
  | "traffic"
  | "upkeep"
  | "replicas"
  | "sealedTexts"
  | "authorities"
  | "warnings"
  | "storeStatus"
  | "publicUrl"
  | "dashboardOrigin"
  | "declare"
  | "retain"
  | "configureWebhooks"
  | "keepHouse"
  | "keepRuns"
  | "keepChannels"
  | "keepRevocations"
  | "describeImported"
  | "retire"
  | "close"
>;

/** What callers may ask of the rooms. */
function operationsOf(rooms: Rooms): Operations {
  const { auditing, setup, signIn, outgoing, connectionRoom, credentials, scripted, channels, connect, webhooks } =
    rooms;
  const { edgeIdentities: ___, close: _, ...settings } = setup;
  const { hooks: __, scheduler: ____, ...scriptOperations } = scripted;
  return {
    ...auditing,
    ...settings,
    access: rooms.accessRoom.access,
    accessSessions: rooms.accessRoom.accessSessions,
    explainAccessSession: rooms.accessRoom.explainAccessSession,
    ...signIn,
    destinations: outgoing.destinations,
    forwards: outgoing.forwards,
    health: connectionRoom.health,
    listing: connectionRoom.listing,
    hostRoutes: connectionRoom.hostRoutes,
    census: connectionRoom.census,
    live: credentials.live,
    attachments: credentials.attachments,
    explain: credentials.explain,
    policies: rooms.policyRoom.policies,
    policiesInForce: rooms.policyRoom.policiesInForce,
    policyGate: rooms.policyRoom.policyGate,
    messageGate: rooms.policyRoom.messageGate,
    explainPolicies: rooms.policyRoom.explainPolicies,
    approvals: rooms.approvalRoom.approvals,
    approvalRequests: rooms.approvalRoom.approvalRequests,
    signedAnswers: rooms.approvalRoom.signedAnswers,
    asks: credentials.asks,
    tokens: credentials.tokens,
    ...scriptOperations,
    channels: channels.channels,
    edges: rooms.edges.edges,
    edgeAccess: rooms.edges.edgeAccess,
    endUsers: rooms.endUsers.endUsers,
    emptyings: rooms.emptying.emptyings,
    mcp: rooms.mcp.mcp,
    clientAnswers: rooms.mcp.clientAnswers,
    sessionSubscriptions: rooms.mcp.sessionSubscriptions,
    listRevocations: rooms.revocations.listRevocations,
    connections: connect.connections,
    imports: connect.imports,
    sessions: connect.sessions,
    authorizations: connect.authorizations,
    origins: connect.origins,
    sharedCallbacks: connect.sharedCallbacks,
    outcomes: connect.outcomes,
    resources: webhooks.resources,
    webhooks: webhooks.webhooks,
    webhookReceivers: webhooks.webhookReceivers,
    notifications: webhooks.notifications,
    destinationsOf: webhooks.destinationsOf,
    destinationControl: webhooks.destinationControl,
    assignNotification: webhooks.assignNotification,
  };
}
