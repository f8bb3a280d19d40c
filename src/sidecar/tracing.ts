import tls from "node:tls";
import type { Tracing } from "../base/tracing.ts";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";
import { openSocket } from "../relay/dial.ts";
import { createTrustedEgress } from "../relay/egress.ts";
import { parseOrigin } from "../relay/origin.ts";
import type { CollectorConfig } from "../tracing/collector.ts";
import type { OpenedEgressProxy } from "./egress-proxy.ts";
import { resolveHost } from "./upstreams.ts";

/**
 * Minimum time to export spans at the end: requests that used up the whole grace period are the ones that operators
 * will look up.
 */
const minSpanFlushMs = 500;

interface TracingOptions {
  readonly egress: OpenedEgressProxy | undefined;
  readonly world: World;
}

/** Loads the tracing module only when tracing is configured. */
export async function openTracing(
  { tracing: config }: Pick<Config, "tracing">,
  { egress, world }: TracingOptions,
): Promise<Tracing | undefined> {
  if (config === undefined) return undefined;
  const { createTracing } = await import("../tracing/tracing.ts");
  const tracing = createTracing({ ...config, connect: connectThrough(egress, config) }, world);
  return { ...tracing, close: (withinMs) => tracing.close(Math.max(minSpanFlushMs, withinMs)) };
}

/** Returns how to reach the collector through the egress proxy; undefined: it is dialed directly. */
function connectThrough(
  egress: OpenedEgressProxy | undefined,
  { endpoint, ca }: Pick<CollectorConfig, "endpoint" | "ca">,
): CollectorConfig["connect"] {
  const origin = parseOrigin(endpoint);
  if (egress === undefined || origin === undefined || !egress.proxy.covers(origin)) return undefined;
  const { proxy } = egress;
  const trusted = createTrustedEgress({ resolve: resolveHost, proxy });
  const usual = ca === undefined ? tls.getCACertificates("default") : [ca];
  const secureContext =
    origin.scheme === "http"
      ? undefined
      : tls.createSecureContext({
          minVersion: "TLSv1.2",
          ca: [...usual, ...(proxy.interceptCa === undefined ? [] : [proxy.interceptCa])],
        });
  return (withinMs) => openSocket(trusted, { origin, secureContext, session: undefined }, withinMs);
}
