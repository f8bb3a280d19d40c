import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { setFaultDocsBase } from "./base/fault-docs.ts";
import { createRareWarning } from "./base/rare-warning.ts";
import { createReadiness } from "./base/readiness.ts";
import { version } from "./base/version.ts";
import type { World } from "./base/world.ts";
import { type Broker, openBroker } from "./broker/broker.ts";
import { warnOfMissingConnections } from "./config/check-aliases.ts";
import type { Changeable, Config } from "./config/config.ts";
import { createConfigInForce } from "./config/in-force.ts";
import { createOpsDoor } from "./data-plane/ops.ts";
import { loadCatalogue } from "./providers/catalogue.ts";
import { createSend } from "./relay/send.ts";
import { openControl } from "./sidecar/control.ts";
import { openDataDoors } from "./sidecar/data-doors.ts";
import { declareSetup } from "./sidecar/declared.ts";
import { openEgressProxy } from "./sidecar/egress-proxy.ts";
import { faultDocsBase } from "./sidecar/fault-docs-base.ts";
import { createIssuerKeyFetch } from "./sidecar/issuer-key-fetch.ts";
import { createListeners, type Listeners } from "./sidecar/listeners.ts";
import { applyChange } from "./sidecar/reload.ts";
import { openScripts } from "./sidecar/scripts.ts";
import type { StartOptions } from "./sidecar/start-options.ts";
import { openStore } from "./sidecar/store.ts";
import { createStoreTrouble } from "./sidecar/store-trouble.ts";
import { openTracing } from "./sidecar/tracing.ts";
import { createUpstreams } from "./sidecar/upstreams.ts";

export interface Sidecar extends Pick<Listeners, "addresses" | "aliases"> {
  /** Gives the process direct access to the broker: `latchkey dev` creates its sample data with it. */
  readonly broker: Broker;
  /**
   * Applies a changed configuration file. An invalid file is rejected, and the previous configuration stays in force.
   */
  reload(read: () => Changeable): Promise<void>;
  /** From now on, refuses JSON and query fields that are close to a known one, as `dev` does. */
  refuseMisspelled(): void;
  /** Finishes the requests in progress within the grace period, then ends the rest. */
  stop(): Promise<void>;
}

/**
 * Starts everything. The ops and control listeners open first, so that probes get an answer; the data listener opens
 * when all requests can be served.
 */
export async function startSidecar(config: Config, base: World, options: StartOptions = {}): Promise<Sidecar> {
  const { doors, scripts: scriptLimits, retention, webhooks } = config;
  const { log, metrics } = base;
  const egress = openEgressProxy(config, { resolve: options.resolve, world: base });
  const tracing = await openTracing(config, { egress, world: base });
  const world: World = { ...base, tracing };
  const warn = createRareWarning(world);
  const shutdown = new AbortController();
  const readiness = createReadiness((phase) => {
    metrics.ready.set(phase === "ready" ? 1 : 0);
    log.info("phase", { phase });
  });
  metrics.ready.set(0);
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  const trouble = createStoreTrouble(log);
  const listeners = createListeners(config, world);
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(listeners.close);

  const ops = createOpsDoor({
    readiness,
    trouble: trouble.reason,
    tls: doors.ops.tls,
    warn,
    world,
    guard: listeners.guard("ops"),
    connections: listeners.connectionLimit("ops"),
  });
  await listeners.open("ops", doors.ops, ops);
  const control = await openControl(config, { readiness, warn, world, shutdown: shutdown.signal, listeners });

  const { store, backend, ...storeLife } = await openStore(config, { world, trouble, signal: options.signal });
  cleanup.defer(backend.close);
  const upstreams = createUpstreams(config, { metrics, resolve: options.resolve, proxy: egress?.proxy });
  cleanup.defer(upstreams.close);
  const send = createSend(upstreams.toProviders);
  const scripts = await openScripts(config, world);
  cleanup.defer(scripts.close);
  const broker = await openBroker({
    store,
    backend,
    retention,
    accessSessions: config.accessSessions,
    webhooks,
    lookupBytes: config.lookupBytes,
    scripts,
    keepsRequests: config.keepsRequests,
    refreshLeaseMs: options.refreshLeaseMs,
    workTermMs: options.workTermMs,
    world,
    catalogue: loadCatalogue(),
    publicUrl: listeners.publicUrl,
    host: hostname(),
    dashboardOrigin: () => (config.dashboard.door === "ui" ? listeners.addresses.ui : config.dashboard.door && ""),
    send,
    sendToApplication: createSend(upstreams.toApplication),
    egressTrouble: egress?.trouble,
    runs: {
      atOnce: scriptLimits.runs,
      atOncePerIntegration: scriptLimits.runsPerIntegration,
      limits: scriptLimits.limits,
    },
  });
  // Its loops would keep a process alive that cannot start.
  cleanup.defer(() =>
    broker.close().catch((err: unknown) => log.warn("could not close after a failed start", { err })),
  );
  trouble.follow(broker);
  await declareSetup(config, { config, broker, log });
  const fetchKeySet = createIssuerKeyFetch({ ...config, resolve: options.resolve, proxy: egress?.proxy });
  broker.configureIdentities(config, fetchKeySet);
  await warnOfMissingConnections(config.aliases, { connections: broker.connections, log });

  const dataDoors = await openDataDoors({ config, broker, ...upstreams, listeners, warn, world });
  setFaultDocsBase(faultDocsBase(config, listeners));
  const inForce = createConfigInForce(config, world);
  const { forwardProxy } = listeners.addresses;
  control.open(broker, { config: inForce, send, sendToProvider: dataDoors.sendToProvider, forwardProxy });
  storeLife.endStart();
  readiness.set("ready");
  // Everything runs: only `stop` ends it.
  cleanup.move();

  return {
    addresses: listeners.addresses,
    aliases: listeners.aliases,
    broker,
    reload: (read) => applyChange(read, { config, broker, doors: dataDoors, inForce, fetchKeySet, world }),
    refuseMisspelled: dataDoors.refuseMisspelled,
    async stop() {
      const deadline = performance.now() + config.graceMs;
      readiness.set("draining");
      listeners.leave(config);
      // `close` awaits the same work and reports its errors.
      broker.retire().catch(() => {});
      // Keep serving until the load balancer has noticed that we are not ready.
      if (config.drainDelayMs > 0) await sleep(config.drainDelayMs);
      await broker.edges.leave();
      shutdown.abort();
      // Answer probes until the end, because the system that drains us watches them.
      await listeners.drain();
      // Wait for refreshes in progress: tokens that a provider issues must be stored.
      await broker.close();
      await scripts.close();
      upstreams.close();
      dataDoors.close();
      await tracing?.close(deadline - performance.now());
      await storeLife.close();
      await listeners.close();
      log.info("stopped");
    },
  };
}
