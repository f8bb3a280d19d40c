import { Worker } from "node:worker_threads";
import type { World } from "../base/world.ts";
import type { ScriptLimits } from "../core/scripts/script.ts";
import type { FromThread, RawFailure, ThreadData, ToolCall, ToThread } from "./messages.ts";

/** The worker threads that run scripts. A thread that dies or hangs is replaced, and its runs fail. */
export interface Threads {
  run(what: ThreadRun): ThreadTask;
  describe(what: Omit<ThreadRun, "start" | "limits" | "events">): Promise<DescribeResult>;
  forget(version: string): void;
  close(): Promise<void>;
}

export type DescribeResult = { readonly text: string } | { readonly failure: RawFailure };

export interface ThreadRun {
  readonly version: string;
  readonly code: string;
  /** The base that must be loaded first. */
  readonly base: LoadedScript | undefined;
  /** Entry, input and facts: a JSON object. */
  readonly start: string;
  readonly limits: ScriptLimits;
  readonly events: ThreadEvents;
}

interface LoadedScript {
  readonly version: string;
  readonly code: string;
}

export interface ThreadEvents {
  calls(calls: readonly ToolCall[]): void;
  lines(lines: Extract<FromThread, { kind: "lines" }>["lines"]): void;
  /** Exactly one of `done` and `failed` is called, once and last. */
  done(text: string): void;
  failed(failure: RawFailure): void;
}

export interface ThreadTask {
  /** `text` is a complete response in the sandbox's format. */
  answer(call: string, text: string): void;
  /** Ends the run; it sends no further events. */
  drop(): void;
}

interface ThreadsOptions {
  readonly prelude: string;
  readonly count: number;
  /** Memory limit while a file is loaded. */
  readonly memoryBytes: number;
  readonly world: Pick<World, "log">;
}

interface Thread {
  readonly worker: Worker;
  readonly inside: BigInt64Array;
  readonly loaded: Set<string>;
  readonly runs: Map<number, ThreadJob>;
}

interface ThreadJob {
  /** Maximum time on the thread: a first run loads its file before it begins. */
  readonly insideMs: number;
  done(text: string): void;
  failed(failure: RawFailure): void;
  calls(calls: readonly ToolCall[]): void;
  lines(lines: Extract<FromThread, { kind: "lines" }>["lines"]): void;
}

/** Extra time past the engine's own limit, which is not checked during long steps of a built-in function. */
const graceMs = 2_000;
const lookMs = 250;
const readingMs = 5_000;

export function createThreads({ prelude, count, memoryBytes, world }: ThreadsOptions): Threads {
  const threads: Thread[] = [];
  let lastRun = 0;
  let isClosed = false;
  const watchdog = setInterval(look, lookMs);
  watchdog.unref();

  function start(): Thread {
    const watch = new SharedArrayBuffer(16);
    const file = import.meta.url.endsWith(".ts") ? "./thread.ts" : "./script-thread.js";
    const worker = new Worker(new URL(file, import.meta.url), {
      workerData: { prelude, memoryBytes, watch } satisfies ThreadData,
      // The worker gets nothing of this process's environment.
      env: {},
      argv: [],
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 256, stackSizeMb: 4 },
    });
    const thread: Thread = { worker, inside: new BigInt64Array(watch), loaded: new Set(), runs: new Map() };
    worker.on("message", (message: FromThread) => hear(thread, message));
    worker.on("error", (error) => gone(thread, "ended by an error", error));
    worker.on("exit", () => gone(thread, "ended"));
    worker.unref();
    threads.push(thread);
    return thread;
  }

  /** An idle thread does not keep the process alive. */
  function forget({ runs, worker }: Thread, run: number): void {
    runs.delete(run);
    if (runs.size === 0) worker.unref();
  }

  function hear(thread: Thread, message: FromThread): void {
    if (message.kind === "ready") return;
    const run = thread.runs.get(message.run);
    if (run === undefined) return;
    if (message.kind === "calls") run.calls(message.calls);
    else if (message.kind === "lines") run.lines(message.lines);
    else {
      forget(thread, message.run);
      if (message.kind === "failed") run.failed(message.failure);
      else run.done(message.text);
    }
  }

  /** Handles the end of a thread, for any reason; only the active run is blamed. */
  function gone(thread: Thread, how: string, error?: unknown): void {
    const at = threads.indexOf(thread);
    if (at === -1) return;
    threads.splice(at, 1);
    void thread.worker.terminate();
    if (!isClosed) world.log.warn("a thread of scripts ended", { how, runs: thread.runs.size, err: error });
    const culprit = Number(Atomics.load(thread.inside, 0));
    const runs = [...thread.runs];
    thread.runs.clear();
    for (const [id, run] of runs) {
      if (id === culprit && how === "hung") {
        run.failed({
          code: "busy",
          message: "ran without waiting for anything, and could not be interrupted",
          stack: "",
        });
      } else run.failed({ code: "host_error", message: `the thread that it ran in ${how}`, stack: "" });
    }
  }

  function look(): void {
    for (const thread of [...threads]) {
      const run = Number(Atomics.load(thread.inside, 0));
      if (run === 0) continue;
      const since = Number(process.hrtime.bigint() / 1_000_000n - Atomics.load(thread.inside, 1));
      const insideMs = thread.runs.get(run)?.insideMs ?? readingMs;
      // Checked twice: the run may have left the thread in between.
      if (since > insideMs + graceMs && Number(Atomics.load(thread.inside, 0)) === run) gone(thread, "hung");
    }
  }

  /** Returns an idle thread, else starts a new one up to the limit, else the least busy. */
  function pick(): Thread {
    const idle = threads.find(({ runs }) => runs.size === 0);
    if (idle !== undefined) return idle;
    if (threads.length < count) return start();
    return threads.reduce((least, one) => (one.runs.size < least.runs.size ? one : least));
  }

  function load(thread: Thread, { version, code }: LoadedScript, base?: string): void {
    if (thread.loaded.has(version)) return;
    thread.loaded.add(version);
    post(thread, { kind: "load", version, code, base });
  }

  function place({ base, ...script }: Pick<ThreadRun, "version" | "code" | "base">, run: ThreadJob): [Thread, number] {
    const thread = pick();
    lastRun += 1;
    const id = lastRun;
    thread.runs.set(id, run);
    thread.worker.ref();
    if (base !== undefined) load(thread, base);
    load(thread, script, base?.version);
    return [thread, id];
  }

  const post = ({ worker }: Thread, message: ToThread): void => worker.postMessage(message);

  return {
    run({ version, code, base, start: text, limits, events }) {
      const [thread, run] = place({ version, code, base }, { insideMs: Math.max(limits.busyMs, readingMs), ...events });
      post(thread, { kind: "run", run, version, start: text, limits });
      return {
        answer(call, answered) {
          if (thread.runs.has(run)) post(thread, { kind: "answer", run, call, text: answered });
        },
        drop() {
          if (thread.runs.has(run)) post(thread, { kind: "drop", run });
          // An endless loop is still detected through the active run's start time.
          forget(thread, run);
        },
      };
    },
    describe: ({ version, code, base }) =>
      new Promise((resolve) => {
        const [thread, run] = place(
          { version, code, base },
          {
            insideMs: readingMs,
            calls: () => undefined,
            lines: () => undefined,
            done: (text) => resolve({ text }),
            failed: (failure) => resolve({ failure }),
          },
        );
        post(thread, { kind: "describe", run, version });
      }),
    forget(version) {
      for (const thread of threads) {
        if (thread.loaded.delete(version)) post(thread, { kind: "forget", version });
      }
    },
    async close() {
      isClosed = true;
      clearInterval(watchdog);
      const ended = [...threads];
      for (const thread of ended) gone(thread, "was ended with the process");
      await Promise.all(ended.map(({ worker }) => worker.terminate()));
    },
  };
}
