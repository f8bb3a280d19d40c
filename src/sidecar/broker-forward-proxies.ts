import type { Broker } from "../broker/broker.ts";
import type { Config } from "../config/config.ts";
import { createHostCertificates } from "../forward-proxy/leafs.ts";
import { createRouteTables } from "../forward-proxy/route-tables.ts";
import { keepAuthorityFile } from "./authority-file.ts";
import { createForwardProxies, type ForwardProxies, type ForwardProxiesOptions } from "./forward-proxies.ts";

interface BrokerForwardProxiesOptions
  extends Pick<ForwardProxiesOptions, "toProviders" | "listeners" | "warn" | "world"> {
  readonly config: Config;
  readonly broker: Pick<Broker, "access" | "authorities" | "hostRoutes">;
}

/** Opens the forward proxies over a store. Undefined while they are off: then no authority is made. */
export async function openForwardProxies(options: BrokerForwardProxiesOptions): Promise<ForwardProxies | undefined> {
  const { config, broker, toProviders, listeners, warn, world } = options;
  if (config.doors.forwardProxy === undefined) return undefined;
  const { access, authorities, hostRoutes } = broker;
  await authorities.start();
  const { known: certificates, listen } = authorities;
  await keepAuthorityFile({ path: config.forwardProxyCaFile, certificates, listen, world });
  return createForwardProxies({
    config,
    access,
    tables: createRouteTables(hostRoutes),
    hostsFor: hostRoutes.hostsOf,
    certificates: createHostCertificates({ authority: authorities.signer, world }),
    toProviders,
    listeners,
    warn,
    world,
  });
}
