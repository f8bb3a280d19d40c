import { Worker } from "node:worker_threads";
import { steadyMs } from "./machine/busy-clock.ts";
import type { FromThread, RawFailure, ThreadData, ToolCall, ToThread } from "./messages.ts";

/** A worker thread that runs scripts, and the runs that it has not ended yet. */
export interface WorkerThread {
  readonly runCount: number;
  has(run: number): boolean;
  add(run: number, job: ThreadJob): void;
  /** Forgets a run; it sends no further events. */
  remove(run: number): void;
  /** Loads code that the thread does not have yet. A script is loaded after its base. */
  load(code: LoadedCode, base?: string): void;
  unload(version: string): void;
  post(message: ToThread): void;
  /**
   * Returns the run on the thread, and the CPU time that it can have used there at most since an earlier call first
   * saw it; undefined while the thread waits.
   */
  active(): { readonly run: number; readonly cpuMs: number; readonly job: ThreadJob | undefined } | undefined;
  /** Ends the thread, and all its runs with `failureOf`. */
  end(failureOf: (run: number) => RawFailure): void;
  /** Resolves when the thread has ended. */
  terminate(): Promise<void>;
}

export interface LoadedCode {
  readonly version: string;
  readonly code: string;
}

export interface ThreadJob extends ThreadEvents {
  /** Maximum CPU time on the thread without a wait: a first run loads its file before it begins. */
  readonly insideMs: number;
}

export interface ThreadEvents {
  calls(calls: readonly ToolCall[]): void;
  lines(lines: Extract<FromThread, { kind: "lines" }>["lines"]): void;
  /** Exactly one of `done` and `failed` is called, once and last. */
  done(text: string): void;
  failed(failure: RawFailure): void;
}

interface WorkerThreadOptions {
  readonly prelude: string;
  /** Memory limit while a file is loaded. */
  readonly memoryBytes: number;
  /** Limit of the CPU time of each step of loading a file. */
  readonly loadingMs: number;
  /** The thread ended without being asked to. */
  readonly onEnded: (error?: unknown) => void;
}

export function startWorkerThread({ prelude, memoryBytes, loadingMs, onEnded }: WorkerThreadOptions): WorkerThread {
  const watch = new SharedArrayBuffer(16);
  const inside = new BigInt64Array(watch);
  const loaded = new Set<string>();
  const jobs = new Map<number, ThreadJob>();
  const file = import.meta.url.endsWith(".ts") ? "./thread.ts" : "./script-thread.js";
  const worker = new Worker(new URL(file, import.meta.url), {
    workerData: { prelude, memoryBytes, loadingMs, watch } satisfies ThreadData,
    // The worker gets nothing of this process's environment.
    env: {},
    argv: [],
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 256, stackSizeMb: 4 },
  });
  worker.on("message", receive);
  worker.on("error", (error) => onEnded(error));
  worker.on("exit", () => onEnded());
  worker.unref();
  let seen = { run: 0, enteredAt: 0n, cpuMs: 0 };

  const post = (message: ToThread): void => worker.postMessage(message);

  /** An idle thread does not keep the process alive. */
  function remove(run: number): void {
    jobs.delete(run);
    if (jobs.size === 0) worker.unref();
  }

  function receive(message: FromThread): void {
    if (message.kind === "ready") return;
    const job = jobs.get(message.run);
    if (job === undefined) return;
    if (message.kind === "calls") job.calls(message.calls);
    else if (message.kind === "lines") job.lines(message.lines);
    else {
      remove(message.run);
      if (message.kind === "failed") job.failed(message.failure);
      else job.done(message.text);
    }
  }

  return {
    get runCount() {
      return jobs.size;
    },
    has: (run) => jobs.has(run),
    add(run, job) {
      jobs.set(run, job);
      worker.ref();
    },
    remove,
    load({ version, code }, base) {
      if (loaded.has(version)) return;
      loaded.add(version);
      post({ kind: "load", version, code, base });
    },
    unload(version) {
      if (loaded.delete(version)) post({ kind: "forget", version });
    },
    post,
    active() {
      const run = Number(Atomics.load(inside, 0));
      if (run === 0) return undefined;
      const enteredAt = Atomics.load(inside, 1);
      if (seen.run !== run || seen.enteredAt !== enteredAt) seen = { run, enteredAt, cpuMs: otherThreadsCpuMs() };
      // Other threads use the CPU too: the thread cannot have used more than the clock says.
      const wallMs = Number(steadyMs() - enteredAt);
      return { run, cpuMs: Math.min(wallMs, otherThreadsCpuMs() - seen.cpuMs), job: jobs.get(run) };
    },
    end(failureOf) {
      void worker.terminate();
      const ended = [...jobs];
      jobs.clear();
      for (const [run, job] of ended) job.failed(failureOf(run));
    },
    terminate: async () => void (await worker.terminate()),
  };
}

/** CPU time of all threads of this process except the calling one. A thread that hangs cannot report its own. */
function otherThreadsCpuMs(): number {
  const [all, own] = [process.cpuUsage(), process.threadCpuUsage()];
  return (all.user + all.system - own.user - own.system) / 1_000;
}
