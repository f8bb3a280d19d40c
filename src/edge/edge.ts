import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { setFaultDocsBase } from "../base/fault-docs.ts";
import { createRareWarning } from "../base/rare-warning.ts";
import { createReadiness } from "../base/readiness.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import type { EdgeConfig } from "../config/edges/edge-config.ts";
import { createOpsDoor } from "../data-plane/ops.ts";
import type { ResolveHost } from "../relay/egress.ts";
import { keepAuthorityFile } from "../sidecar/authority-file.ts";
import { openEgressProxy } from "../sidecar/egress-proxy.ts";
import { faultDocsBase } from "../sidecar/fault-docs-base.ts";
import { createIssuerKeyFetch } from "../sidecar/issuer-key-fetch.ts";
import { createListeners, type Listeners } from "../sidecar/listeners.ts";
import { openTracing } from "../sidecar/tracing.ts";
import { createUpstreams } from "../sidecar/upstreams.ts";
import { createEdgeCallers } from "./edge-callers.ts";
import { openEdgeDoors } from "./edge-doors.ts";
import { type Followed, openFollowed } from "./followed.ts";

/** A sidecar without a store: keys and connections come from brokers. */
export interface Edge extends Pick<Listeners, "addresses" | "aliases"> {
  /** Reads keys, tokens and certificates again, and connects to a broker with them. */
  renew(): void;
  /** Reads the rules for identities again. */
  reload(): void;
  /** Finishes the requests in progress within the grace period, then ends the rest. */
  stop(): Promise<void>;
}

interface EdgeOptions {
  /** Resolves the host names of providers; defaults to the system's resolver. */
  readonly resolve?: ResolveHost;
  /** Aborts the start before it has finished. */
  readonly signal?: AbortSignal;
}

/**
 * Starts an edge. The ops listener opens first, so that probes get an answer; the data listener opens once a broker has
 * answered.
 */
export async function startEdge(config: EdgeConfig, base: World, { resolve, signal }: EdgeOptions = {}): Promise<Edge> {
  const { doors, brokers } = config;
  const { log, metrics } = base;
  const egress = openEgressProxy(config, { resolve, world: base });
  const tracing = await openTracing(config, { egress, world: base });
  const world: World = { ...base, tracing };
  const warn = createRareWarning(world);
  const readiness = createReadiness((phase) => {
    metrics.ready.set(phase === "ready" ? 1 : 0);
    log.info("phase", { phase });
  });
  metrics.ready.set(0);
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  const listeners = createListeners(config, world);
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(listeners.close);

  const hasForwardProxy = doors.forwardProxy !== undefined;
  const followed = openFollowed(brokers, world, { hasForwardProxy });
  cleanup.defer(followed.close);
  const ops = createOpsDoor({
    readiness,
    trouble: () => troubleOf(followed, readiness.phase() === "starting"),
    notice: () => awayText(followed),
    tls: doors.ops.tls,
    warn,
    world,
    guard: listeners.guard("ops"),
    connections: listeners.connectionLimit("ops"),
  });
  await listeners.open("ops", doors.ops, ops);
  const upstreams = createUpstreams(config, { metrics, resolve, proxy: egress?.proxy });
  cleanup.defer(upstreams.close);
  await Promise.race([followed.inSync, ...(signal === undefined ? [] : [once(signal, "abort")])]);
  signal?.throwIfAborted();

  const { certificates, listen } = followed.authorities;
  if (hasForwardProxy && certificates().length === 0) log.warn("no broker has named the forward proxy's authority yet");
  await keepAuthorityFile({ path: config.forwardProxyCaFile, certificates, listen, world });
  const fetchKeySet = createIssuerKeyFetch({ ...config, resolve, proxy: egress?.proxy });
  const callers = createEdgeCallers({ config, followed, fetchKeySet, world });
  const { access } = callers;
  const dataDoors = await openEdgeDoors({
    config,
    followed: { ...followed, access },
    upstreams,
    listeners,
    warn,
    world,
  });
  cleanup.defer(dataDoors.close);
  setFaultDocsBase(faultDocsBase(config, listeners));
  readiness.set("ready");
  // Everything runs: only `stop` ends it.
  cleanup.move();

  return {
    addresses: listeners.addresses,
    aliases: listeners.aliases,
    renew: () => followed.renew(),
    reload: () => callers.reload(),
    async stop() {
      const deadline = performance.now() + config.graceMs;
      readiness.set("draining");
      listeners.leave(config);
      // Keep serving until the load balancer has noticed that we are not ready.
      if (config.drainDelayMs > 0) await sleep(config.drainDelayMs);
      await listeners.drain();
      followed.close();
      upstreams.close();
      dataDoors.close();
      await tracing?.close(deadline - performance.now());
      await listeners.close();
      log.info("stopped");
    },
  };
}

function awayText(followed: Followed): string | undefined {
  const away = followed.away();
  if (away === undefined) return undefined;
  const since = new Date(away.sinceMs).toISOString();
  return `brokers away since ${since}${away.reason === undefined ? "" : `: ${away.reason}`}`;
}

/** A short absence is no reason to lose traffic: what is in memory still works. */
function troubleOf(followed: Followed, isStarting: boolean): string | undefined {
  return isStarting || followed.away()?.isTooLong === true ? awayText(followed) : undefined;
}
