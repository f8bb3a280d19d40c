import type { RareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";
import type { ForwardChoices } from "../data-plane/proxy/forwarding/forwarded-requests.ts";
import type { ForwardTraffic } from "../data-plane/server/forward-traffic.ts";
import { createForwardChoices } from "../forward-proxy/forward-choices.ts";
import { createForwardProxy, type ForwardProxyParts } from "../forward-proxy/forward-proxy.ts";
import { createOwnAddresses } from "../forward-proxy/own-addresses.ts";
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

export interface ForwardProxiesOptions
  extends Pick<ForwardProxyParts, "access" | "tables" | "hostsFor" | "certificates"> {
  readonly config: Pick<Config, "forwardProxyTunnels">;
  readonly toProviders: Upstream;
  readonly listeners: Listeners;
  readonly warn: RareWarning;
  readonly world: World;
}

export function createForwardProxies(options: ForwardProxiesOptions): ForwardProxies {
  const { config, toProviders: upstream, listeners, ...shared } = options;
  const listening = () =>
    [...Object.values(listeners.addresses), ...Object.values(listeners.aliases)].flatMap((address) => address ?? []);
  const parts = {
    ...shared,
    upstream,
    isTunneled: createTunnelHosts(config.forwardProxyTunnels),
    isOwn: createOwnAddresses(listening),
  };
  return {
    choices: createForwardChoices(options.tables),
    forListener: (alias) => createForwardProxy({ ...parts, alias }),
  };
}
