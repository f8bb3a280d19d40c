import { createRareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";
import type { ResolveHost } from "../relay/egress.ts";
import { createEgressProxy, type EgressProxy, type HopOutcome } from "../relay/egress-proxy/egress-proxy.ts";
import { probeProxy } from "../relay/egress-proxy/hop-trouble.ts";
import { resolveHost } from "./upstreams.ts";

export interface OpenedEgressProxy {
  readonly proxy: EgressProxy;
  /** Returns what is wrong with the proxy; undefined: nothing that is known. */
  trouble(): Promise<string | undefined>;
}

interface OpeningOptions {
  readonly resolve: ResolveHost | undefined;
  readonly world: World;
}

const probeMs = 3_000;
/** Several open dashboards ask again and again: the proxy is probed for all of them together. */
const probeForMs = 10_000;

/** Returns undefined if there is no proxy. An unreachable proxy does not keep Latchkey from starting. */
export function openEgressProxy(
  { egressProxy: settings }: Pick<Config, "egressProxy">,
  { resolve = resolveHost, world }: OpeningOptions,
): OpenedEgressProxy | undefined {
  if (settings === undefined) return undefined;
  const { log, metrics } = world;
  const warn = createRareWarning(world);
  /** The last failure of the proxy itself, if nothing has passed since. */
  let failing: string | undefined;
  let probed: { readonly at: number; readonly found: Promise<string | undefined> } | undefined;

  function onOutcome(outcome: HopOutcome, reason: string): void {
    metrics.egressConnections.inc({ outcome });
    if (outcome === "opened") {
      if (failing !== undefined) log.info("the egress proxy works again", { proxy: proxy.address });
      failing = undefined;
      return;
    }
    warn("a connection through the egress proxy failed", { door: `egress ${outcome}`, peer: proxy.address, reason });
    if (outcome !== "refused" && outcome !== "failed") failing = reason;
  }

  function probe(): Promise<string | undefined> {
    if (probed === undefined || performance.now() - probed.at > probeForMs) {
      probed = { at: performance.now(), found: probeProxy(proxy, probeMs) };
    }
    return probed.found;
  }

  const proxy = createEgressProxy({ settings, resolve, onOutcome });
  log.info("everything leaves through the egress proxy", { proxy: proxy.address, direct: settings.noProxy });
  void probe().then((trouble) => {
    if (trouble !== undefined) log.warn("the egress proxy cannot be used", { proxy: proxy.address, reason: trouble });
  });
  return { proxy, trouble: async () => (await probe()) ?? failing };
}
