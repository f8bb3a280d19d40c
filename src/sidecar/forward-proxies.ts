import type { RareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import type { Broker } from "../broker/broker.ts";
import type { Config } from "../config/config.ts";
import type { ForwardChoices } from "../data-plane/proxy/forwarding/forwarded-requests.ts";
import type { ForwardTraffic } from "../data-plane/server/forward-traffic.ts";
import { createForwardChoices } from "../forward-proxy/forward-choices.ts";
import { createForwardProxy } from "../forward-proxy/forward-proxy.ts";
import { createHostCertificates } from "../forward-proxy/leafs.ts";
import { createOwnAddresses } from "../forward-proxy/own-addresses.ts";
import { createRouteTables } from "../forward-proxy/route-tables.ts";
import { createTunnelHosts } from "../forward-proxy/tunnel-hosts.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Upstream } from "../relay/upstream.ts";
import type { Listeners } from "./listeners.ts";

/** The forward proxies of the listeners, and the choice of connections for all of them. */
export interface ForwardProxies {
  readonly choices: ForwardChoices;
  /** Returns the forward proxy of a listener; of an alias, for its connection alone. */
  forListener(alias?: ConnectionRef): ForwardTraffic;
}

interface ForwardProxiesOptions {
  readonly config: Pick<Config, "doors" | "forwardProxyTunnels">;
  readonly broker: Pick<Broker, "access" | "authorities" | "hostRoutes">;
  readonly toProviders: Upstream;
  readonly listeners: Listeners;
  readonly warn: RareWarning;
  readonly world: World;
}

/** Undefined while the forward proxy is off: then no authority is made. */
export async function openForwardProxies(options: ForwardProxiesOptions): Promise<ForwardProxies | undefined> {
  const { config, broker, toProviders, listeners, warn, world } = options;
  if (config.doors.forwardProxy === undefined) return undefined;
  const { access, authorities, hostRoutes: routes } = broker;
  await authorities.start();
  const tables = createRouteTables(routes);
  const listening = () =>
    [...Object.values(listeners.addresses), ...Object.values(listeners.aliases)].flatMap((address) => address ?? []);
  const parts = {
    access,
    tables,
    routes,
    certificates: createHostCertificates({ authority: authorities.signer, world }),
    upstream: toProviders,
    isTunneled: createTunnelHosts(config.forwardProxyTunnels),
    isOwn: createOwnAddresses(listening),
    warn,
    world,
  };
  return {
    choices: createForwardChoices(tables),
    forListener: (alias) => createForwardProxy({ ...parts, alias }),
  };
}
