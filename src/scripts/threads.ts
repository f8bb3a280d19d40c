import { Worker } from "node:worker_threads";
import type { World } from "../base/world.ts";
import type { ScriptLimits } from "../core/scripts/script.ts";
import type { FromThread, RawFailure, ThreadData, ToolCall, ToThread } from "./messages.ts";

/** The worker threads in which scripts run. One that dies or hangs is replaced, and what ran in it is told so. */
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
  /** What has to have been read before. */
  readonly base: LoadedScript | undefined;
  /** Entry, input and facts: an object in JSON. */
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
  /** Once, and last. */
  done(text: string): void;
  failed(failure: RawFailure): void;
}

export interface ThreadTask {
  /** `text` is a whole answer, as the inside reads it. */
  answer(call: string, text: string): void;
  /** Nothing more is heard of it. */
  drop(): void;
}

interface ThreadsOptions {
  readonly prelude: string;
  readonly count: number;
  /** Of a machine while it reads a file. */
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
  /** As long as it may be inside: a first run reads its file before it begins. */
  readonly insideMs: number;
  done(text: string): void;
  failed(failure: RawFailure): void;
  calls(calls: readonly ToolCall[]): void;
  lines(lines: Extract<FromThread, { kind: "lines" }>["lines"]): void;
}

/** Beyond what the engine itself allows: long steps of one built-in function ask nobody. */
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
      // Nothing of this process's own is known there.
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

  /** With nothing to do it keeps no process alive. */
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

  /** The thread is no more, whatever the reason. Who was inside is the one to blame. */
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
      // Looked at twice: it may have left between the two.
      if (since > insideMs + graceMs && Number(Atomics.load(thread.inside, 0)) === run) gone(thread, "hung");
    }
  }

  /** The one with the least to do; one more is begun before a second run goes to any. */
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
          // One that spins is still watched for by what it is inside of.
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
