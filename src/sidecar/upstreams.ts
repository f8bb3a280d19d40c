import { lookup } from "node:dns/promises";
import type { Metrics } from "../base/metrics/metrics.ts";
import type { Config } from "../config/config.ts";
import { inspectedFields } from "../core/outgoing/incoming-fields.ts";
import { createEgress, createTrustedEgress, type ResolveHost } from "../relay/egress.ts";
import type { EgressProxy } from "../relay/egress-proxy/egress-proxy.ts";
import { createUpstream, type Upstream } from "../relay/upstream.ts";

/** Outgoing connections. Providers are untrusted hosts; the customer's application may have a private address. */
export interface Upstreams {
  readonly toProviders: Upstream;
  readonly toApplication: Upstream;
  close(): void;
}

type UpstreamsConfig = Pick<Config, "relay" | "providerCa" | "allowPrivate">;

interface UpstreamsOptions {
  readonly metrics: Metrics;
  /** Resolves host names; defaults to the system's resolver. */
  readonly resolve: ResolveHost | undefined;
  /** Undefined: everything is dialed directly. */
  readonly proxy: EgressProxy | undefined;
}

export function createUpstreams(
  config: UpstreamsConfig,
  { metrics, resolve = resolveHost, proxy }: UpstreamsOptions,
): Upstreams {
  const common = { limits: config.relay, extraCa: config.providerCa };
  const toProviders = createUpstream({
    ...common,
    egress: createEgress({ resolve, proxy, allowPrivate: config.allowPrivate }),
    notable: inspectedFields,
    onCounts({ connections, idle, waiting }) {
      metrics.proxyConnections.set({ state: "carrying" }, connections - idle);
      metrics.proxyConnections.set({ state: "idle" }, idle);
      metrics.proxyConnections.set({ state: "waiting" }, waiting);
    },
  });
  const toApplication = createUpstream({ ...common, egress: createTrustedEgress({ resolve, proxy }) });
  return {
    toProviders,
    toApplication,
    close() {
      toProviders.destroy();
      toApplication.destroy();
    },
  };
}

export const resolveHost: ResolveHost = (host) => lookup(host, { all: true });
