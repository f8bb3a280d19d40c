import { create } from "@bufbuild/protobuf";
import { canShareReads } from "../base/node/shared-socket.ts";
import { canWriteTexts } from "../base/node/text-writes.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import type { Broker } from "../broker/broker.ts";
import type { SendToProvider } from "../broker/traffic/send-to-provider.ts";
import type { Config } from "../config/config.ts";
import { declaredRoutes } from "../data-plane/api/declared-routes.ts";
import { restRoutes } from "../data-plane/api/rest.ts";
import { createBrowserCookies } from "../data-plane/connect/browser-cookie.ts";
import { createConnectSockets } from "../data-plane/connect/connect-sockets.ts";
import { mcpRoutes } from "../data-plane/mcp-endpoint/mcp-routes.ts";
import { createAdmission } from "../data-plane/proxy/admission.ts";
import { createProxy } from "../data-plane/proxy/proxy.ts";
import { createRequestSender } from "../data-plane/proxy/request-sender.ts";
import { createDoor } from "../data-plane/server/door.ts";
import { createLoad } from "../data-plane/server/load.ts";
import { createRateLimits } from "../data-plane/server/rate-limits.ts";
import type { FieldRules } from "../data-plane/server/route-requests.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../gen/latchkey/v1/connection_pb.ts";
import type { Upstream } from "../relay/upstream.ts";
import { openForwardProxies } from "./broker-forward-proxies.ts";
import type { Listeners } from "./listeners.ts";

/** The doors for HTTP and JSON: for the customer's services, for aliases, and for the public. */
export interface DataDoors {
  configure(changed: Pick<Config, "proxy" | "mcpListing">): void;
  /** From now on, refuses fields that are close to a known one. */
  refuseMisspelled(): void;
  /** Sends a single request of the control plane through the proxy. */
  readonly sendToProvider: SendToProvider;
  close(): void;
}

interface DataDoorOptions {
  readonly config: Config;
  readonly broker: Broker;
  readonly toProviders: Upstream;
  readonly listeners: Listeners;
  readonly warn: RareWarning;
  readonly world: World;
}

/** Limits how long a response that is ready stays buffered for an HTTP/2 client that does not read it. */
const maxStallMs = 60_000;

/** Opens the data door, the aliases with an address of their own, and the public door if it is configured. */
export async function openDataDoors(options: DataDoorOptions): Promise<DataDoors> {
  const { config, broker, listeners, warn, world } = options;
  const { doors, limits } = config;
  const { access, origins, hints } = broker;
  const { publicUrl } = listeners;
  const proxyAddress = () => listeners.addresses.forwardProxy;
  const rates = createRateLimits(world.metrics);
  rates.configure(config.proxy.rates);
  const load = createLoad({ limits: config.proxy, onTick: rates.sweep, world });
  const sharesReads = await canReadFast(config, world);
  const cookies = createBrowserCookies(publicUrl);
  const sockets = createConnectSockets({ cookies, outcomes: broker.outcomes, world });
  const { isKnown, environments } = origins;
  const pages = { origins: { isKnown, environments, publicUrl }, sockets };
  const fieldRules: FieldRules = { refusesMisspelled: false };
  const common = { access, hints, fieldRules, limits, hasFastPath: config.fastLane, sharesReads, warn, world };
  const forward = await openForwardProxies(options);
  const proxy = proxyFor(options, { rates, load, choices: forward?.choices });
  let listing = config.mcpListing;
  const sendToProvider = createRequestSender(proxy);
  const dashboard = () => dashboardOf(broker, listeners);
  const tools = mcpRoutes({ broker, sendToProvider, rules: () => listing, dashboard, world });
  const routes = [...restRoutes({ broker, sockets, publicUrl, proxyAddress }), ...tools];
  const forServices = {
    ...common,
    name: "data" as const,
    proxy,
    stallMs: Math.min(config.relay.idleMs, maxStallMs),
    guard: listeners.guard(),
    connections: listeners.connectionLimit("data"),
  };
  const aliases = aliasRefs(config);
  const proxyOf = (alias: ConnectionRef | undefined) => forward && { forward: forward.forListener(alias) };
  try {
    const otherRoutes = (path: string) => declaredRoutes(broker, path);
    const data = createDoor({ ...forServices, routes, otherRoutes, pages, aliases, tls: doors.data.tls });
    await listeners.open("data", doors.data, data);
    for (const { name, address } of config.aliases) {
      const alias = aliases.get(hostOf(name));
      if (address === undefined || alias === undefined) continue;
      await listeners.openAlias(
        name,
        address,
        createDoor({ ...forServices, ...proxyOf(alias), routes: [], alias, tls: undefined }),
      );
    }
    if (forward !== undefined && doors.forwardProxy !== undefined) {
      const door = createDoor({
        ...forServices,
        ...proxyOf(undefined),
        name: "forwardProxy",
        routes: [],
        connections: listeners.connectionLimit("forwardProxy"),
        tls: undefined,
      });
      await listeners.open("forwardProxy", doors.forwardProxy, door);
    }
    for (const address of config.identitySockets) {
      const { openIdentity } = listeners;
      await openIdentity(address, createDoor({ ...forServices, routes, otherRoutes, aliases, tls: undefined }));
    }
    if (doors.public !== undefined) {
      const publicDoor = createDoor({
        ...common,
        name: "public",
        routes: routes.filter(({ isPublic }) => isPublic),
        pages,
        guard: listeners.guard(),
        tls: doors.public.tls,
        connections: listeners.connectionLimit("public"),
      });
      await listeners.open("public", doors.public, publicDoor);
    }
  } catch (error) {
    load.close();
    throw error;
  }
  return {
    configure(changed) {
      rates.configure(changed.proxy.rates);
      load.configure(changed.proxy);
      listing = changed.mcpListing;
    },
    refuseMisspelled() {
      fieldRules.refusesMisspelled = true;
    },
    sendToProvider: createRequestSender(proxy),
    close: () => load.close(),
  };
}

type ProxyParts = Parameters<typeof createProxy>[0];

function proxyFor(
  { broker, config, toProviders, listeners, world }: DataDoorOptions,
  parts: Pick<ProxyParts, "rates" | "load" | "choices">,
): ReturnType<typeof createProxy> {
  const { access, live, attachments, hints, quotas, traffic, mcp, audit } = broker;
  return createProxy({
    ...parts,
    access,
    live,
    attachments,
    hints,
    quotas,
    traffic,
    mcp,
    audit,
    world,
    admission: createAdmission({ ...broker, dashboard: () => dashboardOf(broker, listeners) }),
    upstream: toProviders,
    limits: config.relay,
  });
}

/** Reports whether connections of callers may share one read buffer. Logs which fast ways this Node does not offer. */
async function canReadFast({ fastLane }: Config, { log }: World): Promise<boolean> {
  if (!fastLane) return false;
  const [sharesReads, writesTexts] = await Promise.all([canShareReads(), canWriteTexts()]);
  if (!sharesReads) log.debug("each client connection reads into its own memory");
  if (!writesTexts) log.debug("texts are written through streams");
  return sharesReads;
}

const hostOf = (alias: string) => `${alias}.localhost`;

const aliasRefs = ({ aliases }: Config): ReadonlyMap<string, ConnectionRef> =>
  new Map(
    aliases.map(({ name, environment, integration, connection }) => [
      hostOf(name),
      create(ConnectionRefSchema, { environment, integration, id: connection }),
    ]),
  );

/** Returns the origin of the dashboard, which its own listener or the control listener serves. */
const dashboardOf = ({ dashboardOrigin }: Broker, { addresses }: Listeners): string | undefined => {
  const origin = dashboardOrigin();
  return origin === "" ? addresses.control : origin;
};
