import { create } from "@bufbuild/protobuf";
import { canShareReads } from "../base/node/shared-socket.ts";
import { canWriteTexts } from "../base/node/text-writes.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import { createAttachments } from "../broker/credentials/attachments.ts";
import { createPolicyGate } from "../broker/policies/policy-gate.ts";
import { openTraffic } from "../broker/traffic/open.ts";
import type { EdgeConfig } from "../config/edges/edge-config.ts";
import { createAdmission } from "../data-plane/proxy/admission.ts";
import { forwardProxyRoute } from "../data-plane/proxy/forwarding/forward-proxy-route.ts";
import { createProxy } from "../data-plane/proxy/proxy.ts";
import { createDoor } from "../data-plane/server/door.ts";
import { createLoad } from "../data-plane/server/load.ts";
import { createRateLimits } from "../data-plane/server/rate-limits.ts";
import type { Route } from "../data-plane/server/routes.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../gen/latchkey/v1/connection_pb.ts";
import { createForwardProxies, type ForwardProxies } from "../sidecar/forward-proxies.ts";
import type { Listeners } from "../sidecar/listeners.ts";
import type { Upstreams } from "../sidecar/upstreams.ts";
import { createBrokerRelay } from "./broker-relay.ts";
import type { Followed } from "./followed.ts";

/** Limits how long a response that is ready stays buffered for an HTTP/2 client that does not read it. */
const maxStallMs = 60_000;

interface EdgeDoorOptions {
  readonly config: EdgeConfig;
  readonly followed: Followed;
  readonly upstreams: Upstreams;
  readonly listeners: Listeners;
  readonly warn: RareWarning;
  readonly world: World;
}

/** Opens the data listener, and the aliases with an address of their own. */
export async function openEdgeDoors(options: EdgeDoorOptions): Promise<{ close(): void }> {
  const { config, followed, upstreams, listeners, warn, world } = options;
  const { access, live, quotas, policies, routes } = followed;
  const rates = createRateLimits(world.metrics);
  rates.configure(config.proxy.rates);
  const load = createLoad({ limits: config.proxy, onTick: rates.sweep, world });
  const forward = forwardProxiesOf(options);
  const proxy = createProxy({
    mcp: { onlyConnection: routes.onlyConnection, noteLackingScopes: followed.noteLackingScopes },
    choices: forward?.choices,
    access,
    live,
    attachments: createAttachments(world),
    // A broker's fault brings its own hint.
    hints: { add: async () => {} },
    rates,
    quotas,
    admission: createAdmission({
      access,
      policyGate: createPolicyGate({ sets: policies, knowsConnections: false, world }),
    }),
    load,
    // No command line reads the last requests of an edge.
    traffic: openTraffic({ world, keepsRequests: false }),
    world,
    upstream: upstreams.toProviders,
    limits: config.relay,
  });
  const { dataUrls: urls, credentials } = config.brokers;
  const relay = createBrokerRelay({ urls, tls: () => credentials.last().tls, idleMs: config.relay.idleMs, world });
  const close = () => {
    load.close();
    relay.close();
  };
  const common = {
    name: "data" as const,
    proxy,
    access,
    limits: config.limits,
    connections: listeners.connectionLimit("data"),
    hasFastPath: config.fastLane,
    sharesReads: config.fastLane && (await canReadFast()),
    stallMs: Math.min(config.relay.idleMs, maxStallMs),
    guard: listeners.guard(),
    routes: [],
    relay,
    warn,
    world,
  };
  const aliases = aliasRefs(config);
  const { data, forwardProxy } = config.doors;
  const proxyOf = (alias: ConnectionRef | undefined) => forward && { forward: forward.forListener(alias) };
  try {
    const ofData = { ...common, routes: [routeOf(options)], aliases };
    await listeners.open("data", data, createDoor({ ...ofData, tls: data.tls }));
    for (const address of config.identitySockets) {
      await listeners.openIdentity(address, createDoor({ ...ofData, tls: undefined }));
    }
    for (const { name, address } of config.aliases) {
      const alias = aliases.get(`${name}.localhost`);
      if (address === undefined || alias === undefined) continue;
      await listeners.openAlias(name, address, createDoor({ ...common, ...proxyOf(alias), alias, tls: undefined }));
    }
    if (forwardProxy !== undefined) {
      const { relay: _, ...ofForward } = common;
      const door = createDoor({
        ...ofForward,
        ...proxyOf(undefined),
        name: "forwardProxy",
        connections: listeners.connectionLimit("forwardProxy"),
        tls: undefined,
      });
      await listeners.open("forwardProxy", forwardProxy, door);
    }
  } catch (error) {
    close();
    throw error;
  }
  return { close };
}

/** Undefined while the forward proxy is off. */
function forwardProxiesOf(options: EdgeDoorOptions): ForwardProxies | undefined {
  const { config, followed, upstreams, listeners, warn, world } = options;
  if (config.doors.forwardProxy === undefined) return undefined;
  const { access, routes, certificates } = followed;
  return createForwardProxies({
    config,
    access,
    tables: routes.tables,
    hostsFor: (_environment, origin) => routes.hostsFor(origin),
    certificates,
    toProviders: upstreams.toProviders,
    listeners,
    warn,
    world,
  });
}

/** The forward proxy is the edge's own: brokers know nothing of it. */
const routeOf = ({ followed: { authorities }, listeners }: EdgeDoorOptions): Route =>
  forwardProxyRoute({ address: () => listeners.addresses.forwardProxy, certificates: authorities.certificates });

/** Whether connections of callers may share one read buffer. */
async function canReadFast(): Promise<boolean> {
  const [sharesReads] = await Promise.all([canShareReads(), canWriteTexts()]);
  return sharesReads;
}

const aliasRefs = ({ aliases }: EdgeConfig): ReadonlyMap<string, ConnectionRef> =>
  new Map(
    aliases.map(({ name, environment, integration, connection }) => [
      `${name}.localhost`,
      create(ConnectionRefSchema, { environment, integration, id: connection }),
    ]),
  );
