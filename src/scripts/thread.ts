/** Runs in a worker thread: several machines that wait for their tools, of which one runs at a time. */
import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import type { ScriptLimits } from "../core/scripts/script.ts";
import { createBusyClock, steadyMs } from "./machine/busy-clock.ts";
import { createEngine, type Machine, type MachineHost, type Picture } from "./machine/engine.ts";
import { type MachineRun, openRun } from "./machine/machine-run.ts";
import { MachineError } from "./machine/machine-values.ts";
import { maxCallBytes } from "./machine/run-output.ts";
import type { FromThread, RawFailure, ThreadData, ToThread } from "./messages.ts";

/** Number of cached snapshots, of a few MiB each. */
const maxPictures = 16;
/**
 * Gives scripts a third of the CPU share of others when cores are scarce; a higher value would starve scripts beside a
 * busy service.
 */
const niceness = 5;

const port = parentPort;
if (port === null) throw new Error("a thread of scripts runs in a worker");
const { prelude, memoryBytes, loadingMs, watch } = workerData as ThreadData;
/** Memory limit while a file is loaded: that of a run. */
const loadingLimits = { memoryBytes, isPictured: true } as const;
const inside = new BigInt64Array(watch);
lowerPriority();
const send = (message: FromThread): void => port.postMessage(message);

const engine = await createEngine();
/** Snapshot of a machine without any customer code. */
const emptyMachine = await pictureOf(async ({ outside, step }) => {
  const machine = await engine.blank(loadingLimits, outside);
  step(() => {
    machine.evaluate(prelude, "latchkey.js");
    machine.takeEntry("__enter");
  });
  return machine;
});
const codes = new Map<string, { readonly code: string; readonly base: string | undefined }>();
/** Snapshots with a base that several scripts share. */
const bases = new Map<string, Promise<Picture>>();
/** Snapshots with a loaded version: each run starts from one. Most recently used last. */
const pictures = new Map<string, Picture>();
const runs = new Map<number, MachineRun | "dropped" | "opening">();

/**
 * Lowers the thread's priority: when all cores are busy, the proxy comes before scripts. On Linux, priorities are per
 * thread, and 0 is the caller; elsewhere this would affect the whole process.
 */
function lowerPriority(): void {
  if (process.platform === "linux") setPriority(0, niceness);
}

/** The loading of a file, whose steps may each use the CPU for a limited time. */
interface Loading {
  readonly outside: MachineHost;
  /** Runs a step of the machine on this thread. */
  step<T>(run: () => T): T;
}

function beginLoading(run: number): Loading {
  const busy = createBusyClock();
  let isTooLong = false;
  return {
    outside: {
      // Host calls are ignored while a file is loaded; log lines at its top level are lost.
      called: () => undefined,
      mustStop() {
        isTooLong ||= busy.ms > loadingMs;
        return isTooLong;
      },
    },
    step(taken) {
      enter(run);
      busy.enter();
      try {
        return taken();
      } finally {
        leave();
      }
    },
  };
}

/** Loads code into a machine, within the time limit, and returns a snapshot. */
async function pictureOf(read: (loading: Loading) => Promise<Machine>, run = 0): Promise<Picture> {
  const loading = beginLoading(run);
  const { outside, step } = loading;
  const machine = await read(loading);
  step(() => {
    while (!outside.mustStop() && machine.settle()) {
      // Runs promise jobs that the file started.
    }
  });
  if (outside.mustStop()) throw new MachineError(`loading the file took more than ${loadingMs} ms of CPU time`, "");
  const picture = machine.picture();
  machine.release();
  return picture;
}

/** Returns a snapshot with this version loaded on top of its base. */
async function pictureAfter(run: number, version: string, file: string): Promise<Picture> {
  const found = codes.get(version);
  if (found === undefined) throw new Error("a version that was not loaded");
  const below = found.base === undefined ? emptyMachine : await baseFor(run, found.base);
  return pictureOf(async ({ outside, step }) => {
    const machine = await engine.restore(below, loadingLimits, outside);
    step(() => machine.evaluate(found.code, file));
    return machine;
  }, run);
}

function baseFor(run: number, version: string): Promise<Picture> {
  const kept = bases.get(version) ?? pictureAfter(run, version, "base.js");
  bases.set(version, kept);
  kept.catch(() => bases.delete(version));
  return kept;
}

async function pictureFor(run: number, version: string): Promise<Picture> {
  const kept = pictures.get(version);
  if (kept !== undefined) {
    pictures.delete(version);
    pictures.set(version, kept);
    return kept;
  }
  const made = await pictureAfter(run, version, "script.js");
  pictures.set(version, made);
  for (const oldest of pictures.keys()) {
    if (pictures.size <= maxPictures) break;
    pictures.delete(oldest);
  }
  return made;
}

function enter(run: number): void {
  Atomics.store(inside, 1, steadyMs());
  Atomics.store(inside, 0, BigInt(run));
}

function leave(): void {
  Atomics.store(inside, 0, 0n);
}

async function begin(run: number, version: string, start: string, limits: ScriptLimits): Promise<void> {
  runs.set(run, "opening");
  const end = (message: FromThread): void => {
    runs.delete(run);
    send(message);
  };
  try {
    const opened = await openRun({
      engine,
      picture: await pictureFor(run, version),
      limits,
      events: {
        entered: () => enter(run),
        left: leave,
        calls: (calls) => send({ kind: "calls", run, calls }),
        lines: (lines) => send({ kind: "lines", run, lines }),
        done: (text) => end({ kind: "done", run, text }),
        failed: (failure) => end({ kind: "failed", run, failure }),
      },
    });
    if (runs.get(run) === "dropped") {
      runs.delete(run);
      opened.drop();
      return;
    }
    runs.set(run, opened);
    const { toolCallsAtOnce, outputBytes, logLines, logLineBytes } = limits;
    const guest = JSON.stringify({ toolCallsAtOnce, toolBytes: maxCallBytes, outputBytes, logLines, logLineBytes });
    opened.begin(`{"limits":${guest},${start.slice(1)}`);
  } catch (error) {
    end({ kind: "failed", run, failure: failureOf(error) });
  }
}

async function describe(run: number, version: string): Promise<void> {
  try {
    const picture = await pictureFor(run, version);
    const { outside, step } = beginLoading(run);
    const machine = await engine.restore(picture, loadingLimits, outside);
    const text = step(() => machine.enter("describe", "", ""));
    machine.release();
    send({ kind: "described", run, text });
  } catch (error) {
    send({ kind: "failed", run, failure: failureOf(error) });
  }
}

function failureOf(error: unknown): RawFailure {
  if (error instanceof MachineError) {
    const code = error.message.includes("out of memory") ? "memory" : "script_error";
    return { code, message: error.message, stack: error.inner };
  }
  return { code: "host_error", message: error instanceof Error ? error.message : "the engine failed", stack: "" };
}

port.on("message", (message: ToThread) => {
  if (message.kind === "load") codes.set(message.version, message);
  else if (message.kind === "forget") {
    codes.delete(message.version);
    pictures.delete(message.version);
    bases.delete(message.version);
  } else if (message.kind === "describe") void describe(message.run, message.version);
  else if (message.kind === "run") void begin(message.run, message.version, message.start, message.limits);
  else {
    const run = runs.get(message.run);
    if (run === undefined) return;
    if (message.kind === "answer") {
      if (typeof run === "object") run.answer(message.call, message.text);
    } else if (typeof run === "object") {
      run.drop();
      runs.delete(message.run);
    } else runs.set(message.run, "dropped");
  }
});
send({ kind: "ready" });
