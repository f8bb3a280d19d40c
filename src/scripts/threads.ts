import type { World } from "../base/world.ts";
import type { ScriptLimits } from "../core/scripts/script.ts";
import type { RawFailure } from "./messages.ts";
import {
  type LoadedCode,
  startWorkerThread,
  type ThreadEvents,
  type ThreadJob,
  type WorkerThread,
} from "./worker-thread.ts";

/** The worker threads that run scripts. A thread that dies or hangs is replaced, and its runs fail. */
export interface Threads {
  run(script: ThreadRun): ThreadTask;
  describe(script: ThreadCode): Promise<DescribeOutcome>;
  forget(version: string): void;
  close(): Promise<void>;
}

export type DescribeOutcome = { readonly text: string } | { readonly failure: RawFailure };

interface ThreadCode extends LoadedCode {
  /** The base that must be loaded first. */
  readonly base: LoadedCode | undefined;
}

export interface ThreadRun extends ThreadCode {
  /** Entry, input and facts: a JSON object. */
  readonly start: string;
  readonly limits: ScriptLimits;
  readonly events: ThreadEvents;
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
  /** Limit of the CPU time of each step of loading a file. */
  readonly loadingMs: number;
  readonly world: Pick<World, "log">;
}

/** Extra time past the engine's own limit, which is not checked during long steps of a built-in function. */
const graceMs = 2_000;
/** Interval between two checks for threads that hang. */
const checkEveryMs = 250;
const hungFailure: RawFailure = {
  code: "busy",
  message: "ran too long without waiting for anything, and could not be interrupted",
  stack: "",
};

export function createThreads({ prelude, count, memoryBytes, loadingMs, world }: ThreadsOptions): Threads {
  const threads: WorkerThread[] = [];
  let lastRun = 0;
  let isClosed = false;
  const watchdog = setInterval(endHung, checkEveryMs);
  watchdog.unref();

  function start(): WorkerThread {
    const thread = startWorkerThread({
      prelude,
      memoryBytes,
      loadingMs,
      onEnded: (error) => end(thread, error === undefined ? "ended" : "ended with an error", { error }),
    });
    threads.push(thread);
    return thread;
  }

  /** Removes a thread that ended, for any reason, and ends its runs; only a run that hangs is blamed. */
  function end(thread: WorkerThread, how: string, { hung, error }: { hung?: number; error?: unknown } = {}): void {
    const at = threads.indexOf(thread);
    if (at === -1) return;
    threads.splice(at, 1);
    if (!isClosed) world.log.warn("a script thread ended; its runs failed", { how, runs: thread.runCount, err: error });
    const others: RawFailure = { code: "host_error", message: `the thread of the script ${how}`, stack: "" };
    thread.end((run) => (run === hung ? hungFailure : others));
  }

  function endHung(): void {
    for (const thread of [...threads]) {
      const active = thread.active();
      if (active === undefined) continue;
      const { run, cpuMs, job } = active;
      if (cpuMs > (job?.insideMs ?? loadingMs) + graceMs) end(thread, "hung", { hung: run });
    }
  }

  /** Returns an idle thread, else starts a new one up to the limit, else the least busy. */
  function pick(): WorkerThread {
    const idle = threads.find(({ runCount }) => runCount === 0);
    if (idle !== undefined) return idle;
    if (threads.length < count) return start();
    return threads.reduce((least, one) => (one.runCount < least.runCount ? one : least));
  }

  function assign({ base, version, code }: ThreadCode, job: ThreadJob): [WorkerThread, number] {
    const thread = pick();
    lastRun += 1;
    thread.add(lastRun, job);
    if (base !== undefined) thread.load(base);
    thread.load({ version, code }, base?.version);
    return [thread, lastRun];
  }

  return {
    run({ version, code, base, start: text, limits, events }) {
      const insideMs = Math.max(limits.busyMs, loadingMs);
      const [thread, run] = assign({ version, code, base }, { insideMs, ...events });
      thread.post({ kind: "run", run, version, start: text, limits });
      return {
        answer(call, answered) {
          if (thread.has(run)) thread.post({ kind: "answer", run, call, text: answered });
        },
        drop() {
          if (thread.has(run)) thread.post({ kind: "drop", run });
          // An endless loop is still detected through the active run's start time.
          thread.remove(run);
        },
      };
    },
    describe: (script) =>
      new Promise((resolve) => {
        const [thread, run] = assign(script, {
          insideMs: loadingMs,
          calls: () => undefined,
          lines: () => undefined,
          done: (text) => resolve({ text }),
          failed: (failure) => resolve({ failure }),
        });
        thread.post({ kind: "describe", run, version: script.version });
      }),
    forget(version) {
      for (const thread of threads) thread.unload(version);
    },
    async close() {
      isClosed = true;
      clearInterval(watchdog);
      const open = [...threads];
      for (const thread of open) end(thread, "was stopped with the process");
      await Promise.all(open.map((thread) => thread.terminate()));
    },
  };
}
