import { createMetrics } from "../../base/metrics/metrics.ts";
import { collectWhenIdle } from "../../base/node/idle-collection.ts";
import { letSmallHeapGrow } from "../../base/node/old-generation.ts";
import { limitYoungGeneration } from "../../base/node/young-generation.ts";
import type { World } from "../../base/world.ts";
import { type EdgeConfig, parseEdgeConfig } from "../../config/edges/edge-config.ts";
import { ConfigMistakes } from "../../config/mistakes.ts";
import { type Edge, startEdge } from "../../edge/edge.ts";
import type { Process } from "./process.ts";
import {
  createProcessLog,
  failedExitCode,
  listenForSignals,
  reportMistakes,
  softwareExitCode,
} from "./process-parts.ts";
import { createReader } from "./reloading.ts";

/** Runs an edge until it is told to stop. */
export async function edge(process: Process): Promise<number> {
  let config: EdgeConfig;
  try {
    config = parseEdgeConfig({ env: process.env, files: createReader() });
  } catch (error) {
    if (error instanceof ConfigMistakes) return reportMistakes(error, process);
    throw error;
  }
  limitYoungGeneration({ given: process.env["NODE_OPTIONS"] });
  letSmallHeapGrow({ given: process.env["NODE_OPTIONS"] });
  const metrics = createMetrics();
  const log = createProcessLog(config, { process, metrics });
  for (const warning of config.warnings) log.warn(warning);
  const world: World = { now: Date.now, log, metrics };
  // Registered before anything starts: an unhandled signal would end the process at once.
  const signals = listenForSignals(process);
  const stopped = signals.abortSignal();
  let running: Edge;
  try {
    running = await startEdge(config, world, { signal: stopped });
  } catch (error) {
    if (stopped.aborted) return 0;
    log.error("Latchkey cannot start", { reason: (error as Error).message, err: error });
    return failedExitCode;
  }
  collectWhenIdle();
  const { configFile } = config;
  const watches = [
    ...config.brokers.credentials.files.map((path) => process.watchFile(path, () => running.renew())),
    ...(configFile === undefined ? [] : [process.watchFile(configFile, () => running.reload())]),
  ];
  return new Promise((resolve) => {
    signals.handle((signal) => {
      if (signal === "SIGHUP") {
        running.renew();
        running.reload();
        return;
      }
      log.info("stopping", { signal });
      for (const unwatch of watches) unwatch();
      running.stop().then(
        () => resolve(0),
        (err: unknown) => {
          log.error("could not stop gracefully", { err });
          resolve(failedExitCode);
        },
      );
    });
    process.onUnhandled((kind, err) => {
      metrics.unhandled.inc();
      log.error("unhandled error", { kind, err });
      // A rejected promise affects only its own request. After an exception, the state of the process is unknown.
      if (kind === "exception") running.stop().finally(() => resolve(softwareExitCode));
    });
  });
}
