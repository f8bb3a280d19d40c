import { lookup } from "node:dns/promises";
import type { Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { createConnectionLimit } from "./base/http/connection-limit.ts";
import { createDoorGuard, hostName } from "./base/http/door-guard.ts";
import { describeListener, type ListenAddress, listen } from "./base/http/listener.ts";
import { fitOpenFiles, openFilesLimit } from "./base/http/open-files.ts";
import { certificateEndMs } from "./base/http/tls.ts";
import { createRareWarning } from "./base/rare-warning.ts";
import { createReadiness } from "./base/readiness.ts";
import type { Tracing } from "./base/tracing.ts";
import { version } from "./base/version.ts";
import type { World } from "./base/world.ts";
import { type Broker, openBroker } from "./broker/broker.ts";
import { usualRunLimits } from "./broker/syncs/runs/run-scheduler.ts";
import { checkAliases, warnOfMissingConnections } from "./config/check-aliases.ts";
import type { Changeable, Config, DoorConfig, DoorName } from "./config/config.ts";
import { createControlPlane } from "./control-plane/plane.ts";
import { type DeclaredSetup, defaultEnvironment } from "./core/declared.ts";
import { notableFields } from "./core/outgoing/incoming-fields.ts";
import { defaultScopes } from "./core/scopes.ts";
import { noScripts, type ScriptHost } from "./core/scripts/script.ts";
import { createBrowserCookies } from "./data-plane/api/browser-cookie.ts";
import { createConnectSockets } from "./data-plane/api/connect-sockets.ts";
import { declaredRoutes } from "./data-plane/api/declared-routes.ts";
import { restRoutes } from "./data-plane/api/rest.ts";
import { createOpsDoor } from "./data-plane/ops.ts";
import { createProxy } from "./data-plane/proxy/proxy.ts";
import { createDoor, type Door } from "./data-plane/server/door.ts";
import { createLoad, type Load } from "./data-plane/server/load.ts";
import { isOwnPath } from "./data-plane/server/own-paths.ts";
import { createRateLimits } from "./data-plane/server/rate-limits.ts";
import { Scope } from "./gen/latchkey/v1/access_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "./gen/latchkey/v1/connection_pb.ts";
import { loadCatalogue } from "./providers/catalogue.ts";
import { createEgress, createTrustedEgress, type ResolveHost } from "./relay/egress.ts";
import { canShareReads } from "./relay/node/shared-socket.ts";
import { canWriteTexts } from "./relay/node/text-writes.ts";
import { createSend } from "./relay/send.ts";
import { createUpstream, type Upstream } from "./relay/upstream.ts";
import { type Backend, StoreUnavailable } from "./store/contract.ts";
import type { StoreLocation } from "./store/location.ts";
import { openBackend } from "./store/open.ts";
import { localSealKey } from "./store/sealed/seal-key.ts";
import { openSealedStore } from "./store/sealed/sealed.ts";
import { createWaitingBackend } from "./store/waiting-backend.ts";
import type { TracingConfig } from "./tracing/tracing.ts";

export interface Sidecar {
  /** Addresses that the listeners listen on, as a client writes them. */
  readonly addresses: Readonly<Record<DoorName, string | undefined>>;
  /** Addresses of the aliases that have a listener of their own. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Gives the process direct access to the broker: `latchkey dev` creates its sample data with it. */
  readonly broker: Broker;
  /**
   * Applies a changed configuration file. An invalid file is rejected, and the previous configuration stays in force.
   */
  reload(read: () => Changeable): Promise<void>;
  /** Finishes the requests in progress within the grace period, then ends the rest. */
  stop(): Promise<void>;
}

/**
 * Starts everything. The ops and control listeners open first, so that probes get an answer; the data listener opens
 * when all requests can be served.
 */
export async function startSidecar(config: Config, given: World, told: StartOptions = {}): Promise<Sidecar> {
  const { doors, limits } = config;
  const { log, metrics } = given;
  const tracing = config.tracing === undefined ? undefined : await startTracing(config.tracing, given);
  const world: World = { ...given, tracing };
  const shutdown = new AbortController();
  const warn = createRareWarning(world);
  const readiness = createReadiness((phase) => {
    metrics.ready.set(phase === "ready" ? 1 : 0);
    log.info("phase", { phase });
  });
  metrics.ready.set(0);
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  const addresses: Record<DoorName, string | undefined> = {
    data: undefined,
    public: undefined,
    control: undefined,
    ops: undefined,
  };
  const aliases: Record<string, string> = {};
  const publicUrl = () => config.publicUrl ?? addresses.public ?? addresses.data ?? "";
  // Cached, because every request asks for the allowed hosts and the public URL almost never changes.
  let known: { readonly url: string; readonly hosts: ReadonlySet<string> } | undefined;
  const hosts = () => {
    const url = publicUrl();
    if (known?.url !== url) known = { url, hosts: allowedHosts(config, url) };
    return known.hosts;
  };
  const opened: Closing[] = [];
  const connections = fitOpenFiles(limits.connections, openFilesLimit());
  const connectionsOf = (door: DoorName) =>
    createConnectionLimit({
      ...{ door, max: connections[door], world },
      ...{ isShared: door === "public", isTls: doors[door]?.tls !== undefined },
    });
  for (const door of doorNames) {
    const [wanted, max] = [limits.connections[door], connections[door]];
    if (max < wanted)
      log.info("fewer connections than configured: the process may open few files", { door, wanted, max });
  }

  async function open(
    name: DoorName | `alias ${string}`,
    { address, tls }: DoorConfig,
    door: OpenDoor,
  ): Promise<string> {
    try {
      await listen(door.server, address);
    } catch (error) {
      throw new StartFailure(
        `the ${name} door cannot listen on ${describeAddress(address)}: ${(error as Error).message}`,
        { cause: error },
      );
    }
    const at = describeListener(door.server, tls !== undefined);
    opened.push({ name, door });
    if (tls !== undefined) metrics.certificateEnds.set({ door: name }, certificateEndMs(tls) / 1_000);
    log.info("listening", { door: name, address: at });
    return at;
  }

  async function closeAll(): Promise<void> {
    for (const { door } of opened) door.destroy();
    await Promise.all(opened.map(({ door }) => door.drain()));
  }

  try {
    let broker: Broker | undefined;
    let upstream: Upstream | undefined;
    let toApplication: Upstream | undefined;
    let load: Load | undefined;
    let scripts: ScriptHost | undefined;
    let obstacle: string | undefined;
    const trouble = () => troubleOf(broker) ?? obstacle;
    const ops = createOpsDoor({
      ...{ readiness, trouble, tls: doors.ops.tls, connections: connectionsOf("ops"), warn, world },
      guard: createDoorGuard({ hosts, origins: () => ownOrigins(addresses.ops) }),
    });
    addresses.ops = await open("ops", doors.ops, ops);
    const control = createControlPlane({
      readiness,
      guard: createDoorGuard({ hosts, origins: () => ownOrigins(addresses.control) }),
      maxMessageBytes: limits.rpcMessageBytes,
      maxHeadBytes: limits.headBytes,
      maxHeadLines: limits.headLines,
      tls: doors.control.tls,
      connections: connectionsOf("control"),
      warn,
      world,
      shutdown: shutdown.signal,
    });
    addresses.control = await open("control", doors.control, control);

    const onObstacle = (reason: string | undefined) => {
      if (reason !== undefined && reason !== obstacle) log.warn("the store cannot be opened yet", { reason });
      obstacle = reason;
    };
    const opening = await openWhenPossible(config.store, { world, told, onObstacle });
    const waiting = createWaitingBackend({ backend: opening, onObstacle, signal: told.signal });
    const { backend } = waiting;
    try {
      const store = await openSealedStore({ backend, keys: config.sealKeys.map(localSealKey), world });
      const { resolve = resolveHost } = told;
      const egress = createEgress({ resolve, allowPrivate: config.allowPrivate });
      upstream = createUpstream({
        egress,
        limits: config.relay,
        extraCa: config.providerCa,
        notable: notableFields,
        onCounts({ connections, idle, waiting }) {
          metrics.proxyConnections.set({ state: "carrying" }, connections - idle);
          metrics.proxyConnections.set({ state: "idle" }, idle);
          metrics.proxyConnections.set({ state: "waiting" }, waiting);
        },
      });
      const send = createSend(upstream);
      const { retention } = config;
      const { refreshLeaseMs, deliveryLeaseMs } = told;
      const catalogue = loadCatalogue();
      toApplication = createUpstream({
        egress: createTrustedEgress({ resolve }),
        limits: config.relay,
        extraCa: config.providerCa,
      });
      scripts = await openScripts(config, world);
      broker = await openBroker({
        ...{ store, backend, catalogue, publicUrl, retention, send, refreshLeaseMs, deliveryLeaseMs, world },
        scripts,
        sendToApplication: createSend(toApplication),
        webhooks: config.webhooks,
        runs: {
          atOnce: config.scripts.runs,
          atOncePerIntegration: config.scripts.runsPerIntegration,
          limits: config.scripts.limits,
        },
      });
      const held = broker;
      await checkAliases(config.undeclaredAliases, { integrations: held.integrations, log });
      await held.declare(withPinned(config.declared, config));
      await warnOfMissingConnections(config.aliases, { connections: held.connections, log });
      const sockets = createConnectSockets({
        cookies: createBrowserCookies(publicUrl),
        outcomes: held.outcomes,
        world,
      });
      const routes = restRoutes({ broker: held, sockets, publicUrl });
      const { isKnown, environments } = held.origins;
      const pages = { origins: { isKnown, environments, publicUrl }, sockets };
      const rates = createRateLimits(metrics);
      rates.configure(config.proxy.rates);
      const atDoor = createLoad({ limits: config.proxy, onLook: rates.sweep, world });
      load = atDoor;
      const proxy = createProxy({
        access: held.access,
        live: held.live,
        attachments: held.attachments,
        upstream,
        limits: config.relay,
        rates,
        load,
        world,
      });
      const [sharesReads, writesTexts] = config.fastLane ? await Promise.all([canShareReads(), canWriteTexts()]) : [];
      if (sharesReads === false) world.log.debug("callers' connections are read each into its own memory");
      if (writesTexts === false) world.log.debug("texts are written by way of streams");
      const common = { access: held.access, limits, warn, world };
      const refs = aliasRefs(config);
      const stallMs = Math.min(config.relay.idleMs, maxStallMs);
      const toProviders = {
        ...{ ...common, name: "data" as const, proxy, stallMs },
        ...{ hasFastLane: config.fastLane, sharesReads: sharesReads === true },
        ...{ guard: createDoorGuard({ hosts }), connections: connectionsOf("data") },
      };
      const otherRoutes = (path: string) => declaredRoutes(held, path);
      const dataDoor = createDoor({ ...toProviders, routes, otherRoutes, pages, aliases: refs, tls: doors.data.tls });
      addresses.data = await open("data", doors.data, dataDoor);
      for (const { name, address } of config.aliases) {
        const alias = refs.get(`${name}.localhost`);
        if (address === undefined || alias === undefined) continue;
        const door = createDoor({ ...toProviders, routes: [], alias, tls: undefined });
        aliases[name] = await open(`alias ${name}`, { address, tls: undefined }, door);
      }
      if (doors.public !== undefined) {
        const guard = createDoorGuard({ hosts });
        const publicRoutes = routes.filter(({ isPublic }) => isPublic);
        addresses.public = await open(
          "public",
          doors.public,
          createDoor({
            ...{ ...common, name: "public" as const, routes: publicRoutes, pages, guard, tls: doors.public.tls },
            ...{ hasFastLane: config.fastLane, sharesReads: sharesReads === true },
            connections: connectionsOf("public"),
          }),
        );
      }
      control.open(held);
      waiting.end();
      readiness.set("ready");

      return {
        addresses,
        aliases,
        broker: held,
        async reload(read) {
          try {
            const { declared, proxy: limits, webhooks, retention: wanted, undeclaredAliases } = read();
            await checkAliases(undeclaredAliases, { integrations: held.integrations, log });
            await held.declare(withPinned(declared, config));
            held.retain(wanted);
            held.configureWebhooks(webhooks);
            rates.configure(limits.rates);
            atDoor.configure(limits);
            metrics.configRejected.set(0);
            log.info("the configuration file was applied");
            await warnOfMissingConnections(config.aliases, { connections: held.connections, log });
          } catch (err) {
            metrics.configRejected.set(1);
            log.error("the configuration file is refused; what was in force stays", { err });
          }
        },
        async stop() {
          readiness.set("draining");
          const since = performance.now();
          const grace = setTimeout(() => {
            log.warn("the grace period is over; what is still under way is cut off");
            for (const { door } of opened) door.destroy();
          }, config.graceMs);
          const streams = setTimeout(() => {
            for (const { door } of opened) door.endStreams?.();
          }, config.streamGraceMs);
          for (const { door } of opened) door.leave?.();
          // `close` awaits the same work and reports its errors.
          held.retire().catch(() => {});
          // Keep serving until the load balancer has noticed that we are not ready.
          if (config.drainDelayMs > 0) await sleep(config.drainDelayMs);
          shutdown.abort();
          // Answer probes until the end, because the system that drains us watches them.
          await Promise.all(opened.filter(({ name }) => name !== "ops").map(({ door }) => door.drain()));
          clearTimeout(grace);
          clearTimeout(streams);
          // Wait for refreshes in progress: tokens that a provider issues must be stored.
          await held.close();
          await scripts?.close();
          upstream?.destroy();
          toApplication?.destroy();
          load?.close();
          await tracing?.close(Math.max(minSpanFlushMs, config.graceMs - (performance.now() - since)));
          store.close();
          await backend.close();
          ops.destroy();
          await ops.drain();
          log.info("stopped");
        },
      };
    } catch (error) {
      await scripts?.close();
      upstream?.destroy();
      toApplication?.destroy();
      load?.close();
      await backend.close();
      throw error;
    }
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Limits how long a response that is ready stays buffered for an HTTP/2 client that does not read it. */
const maxStallMs = 60_000;
/**
 * Minimum time to export spans: requests that used up the whole grace period are the ones that operators will look up.
 */
const minSpanFlushMs = 500;

/** Loads the tracing module only when tracing is configured. */
async function startTracing(config: TracingConfig, world: World): Promise<Tracing> {
  const { createTracing } = await import("./tracing/tracing.ts");
  return createTracing(config, world);
}

/** The reason why Latchkey cannot start, in a sentence for its operator. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
}

/** Options of a start beside its configuration. */
export interface StartOptions {
  /** Resolves the host names of providers; defaults to the system's resolver. */
  readonly resolve?: ResolveHost;
  /**
   * Time after its last sign of life until a refresh may be taken over. Tests set a shorter time than half a minute.
   */
  readonly refreshLeaseMs?: number | undefined;
  /** Time after its last sign of life until another process may take over the deliveries. Tests set a shorter time. */
  readonly deliveryLeaseMs?: number | undefined;
  /** Aborts the start before it has finished. */
  readonly signal?: AbortSignal;
}

interface StoreWait {
  readonly world: World;
  readonly told: StartOptions;
  readonly onObstacle: (reason: string | undefined) => void;
}

const openAgainEveryMs = 1_000;

/**
 * Waits, not ready and with a reason, while the disk is full or the database is unreachable. Exiting to be restarted
 * would give the same result, with a flapping process on top.
 */
async function openWhenPossible(location: StoreLocation, { world, told, onObstacle }: StoreWait): Promise<Backend> {
  for (;;) {
    try {
      const backend = await openBackend(location, world);
      onObstacle(undefined);
      return backend;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      onObstacle(error.message);
    }
    await sleep(openAgainEveryMs, undefined, told).catch((cause: unknown) => {
      throw new StartFailure("told to stop before the store could be opened", { cause });
    });
  }
}

const resolveHost: ResolveHost = (host) => lookup(host, { all: true });

function aliasRefs({ aliases }: Config): ReadonlyMap<string, ConnectionRef> {
  return new Map(
    aliases.map(({ name, environment, integration, connection }) => [
      `${name}.localhost`,
      create(ConnectionRefSchema, { environment, integration, id: connection }),
    ]),
  );
}

interface OpenDoor extends Pick<Door, "drain" | "destroy">, Partial<Pick<Door, "leave" | "endStreams">> {
  readonly server: Server;
}

interface Closing {
  readonly name: DoorName | `alias ${string}`;
  readonly door: OpenDoor;
}

/** Loads the script engine only when there are scripts, because it is a large module. */
async function openScripts({ scriptsFolder, scripts }: Config, world: World): Promise<ScriptHost> {
  if (scriptsFolder === undefined) return noScripts;
  const { createScriptHost } = await import("./scripts/host.ts");
  // A lower limit for scheduled runs does not reduce the runs that a caller waits for.
  const runsAtOnce = Math.max(scripts.runs, usualRunLimits.atOnce);
  const { threads } = scripts;
  const { memoryBytes } = scripts.limits;
  return createScriptHost({ folder: scriptsFolder, world, isOwnPath, limits: { threads, runsAtOnce, memoryBytes } });
}

const troubleOf = (broker: Broker | undefined): string | undefined => {
  const status = broker?.storeStatus();
  return status?.reason ?? (status?.writable === false ? "the store takes no writes" : undefined);
};

/**
 * Adds to the declared setup what variables pin: the default environment, its keys, its forward URL, the control key.
 */
function withPinned(declared: DeclaredSetup, config: Config): DeclaredSetup {
  const { secretKey, adminKey, forwardUrl, forwardSecret, allowedOrigins } = config;
  const isDeclared = declared.environments.some(({ name }) => name === defaultEnvironment);
  const isPinned = [secretKey, forwardUrl, forwardSecret, allowedOrigins].some((value) => value !== undefined);
  const needsDefault = !isDeclared && (declared.environments.length === 0 || isPinned);
  const nothing = { forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: undefined };
  const environment = { name: defaultEnvironment, ...nothing };
  const environments = needsDefault ? [...declared.environments, environment] : declared.environments;
  return {
    ...declared,
    environments: environments.map((one) =>
      one.name === defaultEnvironment
        ? { ...one, forwardUrl: forwardUrl ?? one.forwardUrl, allowedOrigins: allowedOrigins ?? one.allowedOrigins }
        : one,
    ),
    signingSecrets: [
      ...declared.signingSecrets,
      ...(forwardSecret === undefined ? [] : [{ environment: defaultEnvironment, secrets: [forwardSecret] }]),
    ],
    keys: [
      ...declared.keys,
      ...(secretKey === undefined
        ? []
        : [{ id: "secret-key", environment: defaultEnvironment, secret: secretKey, scopes: defaultScopes }]),
      ...(adminKey === undefined
        ? []
        : [{ id: "admin-key", environment: "", secret: adminKey, scopes: [Scope.ADMIN] }]),
    ],
  };
}

const doorNames = ["data", "public", "control", "ops"] as const;

const wildcards = ["0.0.0.0", "::", "[::]"];

function allowedHosts({ allowedHosts: configured, doors, aliases }: Config, publicUrl: string): ReadonlySet<string> {
  const ofDoors = [doors.data, doors.public, doors.control, doors.ops, ...aliases].flatMap((door) =>
    door?.address?.kind === "tcp"
      ? [door.address.host.includes(":") ? `[${door.address.host}]` : door.address.host.toLowerCase()]
      : [],
  );
  const ofAliases = aliases.map(({ name }) => `${name}.localhost`);
  const ofPublicUrl = URL.canParse(publicUrl) ? [hostName(new URL(publicUrl).host) ?? ""] : [];
  const all = [...(configured ?? [...ofDoors, ...ofPublicUrl, "localhost", "127.0.0.1", "[::1]"]), ...ofAliases];
  // Drop wildcard hosts: a browser can be sent to 0.0.0.0 and reaches whatever listens on this machine.
  return new Set(all.filter((host) => !wildcards.includes(host)));
}

/** Origins of the pages that a listener itself serves, under the names that a browser on this machine can use. */
function ownOrigins(address: string | undefined): ReadonlySet<string> {
  if (address === undefined || !URL.canParse(address)) return new Set();
  const { protocol, port } = new URL(address);
  return new Set([address, `${protocol}//localhost:${port}`]);
}

const describeAddress = (address: ListenAddress): string =>
  address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
