import { resolve } from "node:path";
import type { World } from "../base/world.ts";
import { type ScriptEndpoint, type ScriptHost, usualScriptLimits } from "../core/scripts/script.ts";
import { createBundler, readPrelude, stopBundler } from "./bundle.ts";
import { createLoadedScripts } from "./loaded-scripts.ts";
import { openReloadLoop } from "./reload-loop.ts";
import { createScriptQueue } from "./script-queue.ts";
import { failedOutcome, runScript } from "./script-run.ts";
import { createThreads } from "./threads.ts";
import { createToolQueues } from "./tool-queues.ts";

export interface ScriptHostOptions {
  /** Holds `<integration>/{syncs,actions,events}/<name>.ts`. */
  readonly folder: string;
  readonly world: Pick<World, "log" | "now">;
  readonly limits?: Partial<HostLimits>;
  /** Reports whether a path of the data port is one of Latchkey's own routes. */
  readonly isOwnPath?: (endpoint: ScriptEndpoint) => boolean;
}

export interface HostLimits {
  /** Worker threads; the proxy has a CPU core to itself. */
  readonly threads: number;
  /** Maximum concurrent runs per queue. Each may use all the memory that a run may have; further runs wait. */
  readonly runsAtOnce: number;
  /** Memory limit while a file is loaded: that of a run, so that whatever loads can run. */
  readonly memoryBytes: number;
  /** Limit of the CPU time of each step of loading a file. */
  readonly loadingMs: number;
  /** Interval at which the folder is checked even without events. */
  readonly lookMs: number;
  /** Changes within this time are handled together. */
  readonly quietMs: number;
}

const usualHostLimits: HostLimits = {
  threads: 1,
  runsAtOnce: 16,
  memoryBytes: usualScriptLimits.memoryBytes,
  loadingMs: 5_000,
  lookMs: 5_000,
  quietMs: 50,
};

export async function createScriptHost(options: ScriptHostOptions): Promise<ScriptHost> {
  const { world, isOwnPath = () => false } = options;
  const {
    threads: count,
    memoryBytes,
    loadingMs,
    runsAtOnce,
    lookMs,
    quietMs,
  } = {
    ...usualHostLimits,
    ...options.limits,
  };
  const folder = resolve(options.folder);
  const prelude = await readPrelude();
  const threads = createThreads({ prelude, count, memoryBytes, loadingMs, world });
  const toolQueues = createToolQueues();
  const queue = createScriptQueue({
    atOnce: runsAtOnce,
    runScript: (ready, job) => runScript({ threads, toolQueues, world }, ready, job),
    world,
  });
  const listeners = new Set<() => void>();
  const scripts = createLoadedScripts({
    folder,
    prelude,
    threads,
    bundleScript: createBundler(),
    isOwnPath,
    onChanged() {
      for (const listener of listeners) listener();
    },
    onForgotten(version) {
      threads.forget(version);
      queue.forget(version);
    },
    world,
  });
  let isClosed = false;
  const reloading = await openReloadLoop({
    folder,
    everyMs: lookMs,
    quietMs,
    reload: () =>
      scripts
        .reload()
        .catch((error: unknown) => world.log.error("could not load the scripts folder; will retry", { err: error })),
    onIdle: () => void stopBundler(),
  });

  return {
    all: scripts.all,
    broken: scripts.broken,
    find: (at) => scripts.find(at)?.script,
    sourceOf: (script) => scripts.codeOf(script)?.source,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async run(script, job) {
      const ready = scripts.codeOf(script) ?? scripts.find(script);
      if (ready === undefined) return failedOutcome("host_error", `the script ${script.name} was removed`);
      if (isClosed) return failedOutcome("host_error", "the process is stopping");
      return queue.run(ready, job);
    },
    async close() {
      isClosed = true;
      toolQueues.close();
      listeners.clear();
      scripts.close();
      await reloading.close();
      await threads.close();
      await stopBundler();
    },
  };
}
