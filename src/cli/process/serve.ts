import type { Log } from "../../base/log.ts";
import { createMetrics } from "../../base/metrics/metrics.ts";
import { collectWhenIdle } from "../../base/node/idle-collection.ts";
import { letSmallHeapGrow } from "../../base/node/old-generation.ts";
import { limitYoungGeneration } from "../../base/node/young-generation.ts";
import type { World } from "../../base/world.ts";
import { type Config, ConfigMistakes, parseChangeable, parseConfig } from "../../config/config.ts";
import { StartFailure } from "../../sidecar/start-failure.ts";
import { type Sidecar, startSidecar } from "../../sidecar.ts";
import { StoreRefused } from "../../store/contract.ts";
import { describeStoreLocation } from "../../store/location.ts";
import { SealKeyMissing } from "../../store/sealed/seal-key.ts";
import { adminKeyFile, type KeyFile, secretKeyFile } from "./key-files.ts";
import type { Process } from "./process.ts";
import {
  configExitCode,
  createProcessLog,
  failedExitCode,
  listenForSignals,
  reportMistakes,
  softwareExitCode,
} from "./process-parts.ts";
import { createReader, createReloading } from "./reloading.ts";

interface ServeOptions {
  readonly process: Process;
  /** Variables that override the environment's. */
  readonly overrides?: () => Readonly<Record<string, string>>;
  /** Called once everything runs. */
  readonly onStarted?: (sidecar: Sidecar, config: Config) => Promise<void>;
}

/** Runs a sidecar until it is told to stop. */
export async function serve({ process, overrides, onStarted }: ServeOptions): Promise<number> {
  const files = createReader();
  let env = process.env;
  let config: Config;
  let made: readonly KeyFile[];
  try {
    env = { ...env, ...overrides?.() };
    [config, made] = withKeyFiles(parseConfig({ env, files }));
  } catch (error) {
    if (error instanceof ConfigMistakes) return reportMistakes(error, process);
    if (!(error instanceof StoreRefused)) throw error;
    process.stderr.write(`Latchkey cannot start: ${error.message}\n`);
    return failedExitCode;
  }
  limitYoungGeneration({ given: env["NODE_OPTIONS"] });
  letSmallHeapGrow({ given: env["NODE_OPTIONS"] });
  const metrics = createMetrics();
  const log = createProcessLog(config, { process, metrics });
  for (const warning of config.warnings) log.warn(warning);
  for (const { path } of made) log.info("generated a key and wrote it to a file", { path });
  const world: World = { now: Date.now, log, metrics };

  // Registered before anything starts: an unhandled signal would end the process at once.
  const signals = listenForSignals(process);
  const stopped = signals.abortSignal();
  let sidecar: Sidecar;
  try {
    sidecar = await startSidecar(config, world, { signal: stopped });
  } catch (error) {
    if (stopped.aborted) return 0;
    if (error instanceof ConfigMistakes) return reportMistakes(error, process);
    return explain(error, { log, config });
  }
  collectWhenIdle();
  const { configFile } = config;
  const reloading =
    configFile === undefined
      ? undefined
      : createReloading({
          process,
          read: (reader) => parseChangeable({ path: configFile, env, files: reader }),
          apply: (read) => sidecar.reload(read),
          inForce: files.texts,
        });

  let isStopping = false;
  const ended = new Promise<number>((resolve) => {
    signals.handle((signal) => {
      if (signal === "SIGHUP") {
        reloading?.reload();
        return;
      }
      log.info("stopping", { signal });
      isStopping = true;
      reloading?.end();
      sidecar.stop().then(
        () => resolve(0),
        (err: unknown) => {
          log.error("could not stop gracefully", { err });
          resolve(failedExitCode);
        },
      );
    });
    process.onUnhandled((kind, err) => {
      world.metrics.unhandled.inc();
      log.error("unhandled error", { kind, err });
      // A rejected promise affects only its own request. After an exception, the state of the process is unknown.
      if (kind === "exception") sidecar.stop().finally(() => resolve(softwareExitCode));
    });
  });
  try {
    await onStarted?.(sidecar, config);
  } catch (error) {
    // Stopped during the start: not an error.
    if (isStopping) return ended;
    reloading?.end();
    await sidecar.stop();
    throw error;
  }
  return ended;
}

/** Keys that are not configured are generated on the first start; their files are logged, never their values. */
function withKeyFiles(config: Config): [Config, readonly KeyFile[]] {
  if (config.store.kind !== "level") return [config, []];
  const { folder } = config.store;
  const needsSecretKey = config.secretKey === undefined && config.declared.environments.length === 0;
  const admin = config.adminKey === undefined ? adminKeyFile(folder) : undefined;
  const secret = needsSecretKey ? secretKeyFile(folder) : undefined;
  const completed = {
    ...config,
    adminKey: admin?.value ?? config.adminKey,
    secretKey: secret?.value ?? config.secretKey,
  };
  return [completed, [admin, secret].filter((file) => file?.isNew === true) as KeyFile[]];
}

function explain(error: unknown, { log, config }: { readonly log: Log; readonly config: Config }): number {
  if (error instanceof SealKeyMissing) {
    log.error("the store cannot be opened with the configured encryption keys", { reason: error.message });
    return configExitCode;
  }
  const store = describeStoreLocation(config.store);
  if (error instanceof StartFailure || error instanceof StoreRefused) {
    log.error("Latchkey cannot start", { reason: error.message, store });
  } else {
    log.error("Latchkey cannot start", { reason: (error as Error).message, store, err: error });
  }
  return failedExitCode;
}
