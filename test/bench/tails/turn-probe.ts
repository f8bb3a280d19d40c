/**
 * Loaded into the sidecar's process before it. Between "begin" and "end" it records each turn of the event loop, each
 * collection, and samples of what the main thread ran.
 */
import { Session } from "node:inspector";
import { PerformanceObserver, performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

/** Times in milliseconds of the process's own clock. */
export interface Recorded {
  /** What to add to a time for the wall clock. */
  readonly wallMs: number;
  /** Rows of four: the turn's end, then sums since the start: time in poll, CPU of the thread, of other threads. */
  readonly turns: readonly number[];
  readonly collections: readonly Collection[];
  readonly samples: readonly Sample[];
  /** None unless a probe notes them. */
  readonly writes: readonly StoreWrite[];
}

/** A durable write of the store, as the main thread sees it. */
export interface StoreWrite {
  readonly from: number;
  readonly until: number;
  /** LevelDB wrote or merged tables meanwhile. */
  readonly isCompacting?: boolean;
}

export interface Collection {
  readonly kind: "young" | "old";
  readonly at: number;
  readonly tookMs: number;
}

export interface Sample {
  readonly at: number;
  /** The function that ran, or V8's own name of it: `(program)` is native code. */
  readonly ran: string;
}

const mostTurns = 200_000;
const askFromMs = 0.3;
const askEvery = 64;
const sampleEveryMicros = 250;
/** V8's number of its young collection; incremental and weak callbacks belong to the old generation. */
const youngKind = 1;

const turns = new Float64Array(mostTurns * 4);
let noted = 0;
let isOn = false;
let collections: Collection[] = [];
let writes: StoreWrite[] = [];

export function noteWrite(write: StoreWrite): void {
  if (isOn) writes.push(write);
}
new PerformanceObserver((list) => {
  if (!isOn) return;
  for (const entry of list.getEntries()) {
    const { startTime, duration } = entry;
    const { kind } = (entry as typeof entry & { readonly detail: { readonly kind: number } }).detail;
    collections.push({ kind: kind === youngKind ? "young" : "old", at: startTime, tookMs: duration });
  }
}).observe({ entryTypes: ["gc"] });

/** Without a reference it runs in each turn that happens anyway, and wakes nothing. */
function note(): void {
  if (!isOn) return;
  if (noted < mostTurns) {
    const { user, system } = process.threadCpuUsage();
    const at = noted * 4;
    turns[at] = performance.now();
    turns[at + 1] = performance.eventLoopUtilization().idle;
    turns[at + 2] = (user + system) / 1_000;
    turns[at + 3] = cpuOfOthers(at);
    noted += 1;
  }
  setImmediate(note).unref();
}

/** Asking costs more than most turns: only after one in which the thread did not run all the time. */
function cpuOfOthers(at: number): number {
  if (at === 0) return 0;
  const since = (column: number) => (turns[at + column] ?? 0) - (turns[at + column - 4] ?? 0);
  const known = turns[at - 1] ?? 0;
  if (since(0) - since(1) - since(2) < askFromMs && noted % askEvery !== 0) return known;
  const { user, system } = process.cpuUsage();
  return Math.max(known, (user + system) / 1_000 - (turns[at + 2] ?? 0));
}

const session = new Session();
session.connect();
const ask = <T>(method: string, params: object = {}): Promise<T> =>
  new Promise((resolve, reject) =>
    session.post(method, params, (error, result) => (error === null ? resolve(result as T) : reject(error))),
  );

/** The wall clock has milliseconds only: the moment it changes is exact. */
function wallOffset(): number {
  const from = Date.now();
  for (;;) {
    const [wall, own] = [Date.now(), performance.now()];
    if (wall !== from) return wall - own;
  }
}

interface Profile {
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
  readonly nodes: readonly {
    readonly id: number;
    readonly children?: readonly number[];
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
}

function samplesOf({ startTime, samples, timeDeltas, nodes }: Profile): Sample[] {
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const names = new Map<number, string>();
  /** Native code is named with the nearest function that has a name. */
  const nameOf = (id: number): string => {
    const { functionName = "", url = "", lineNumber = 0 } = frames.get(id) ?? {};
    const parent = parents.get(id);
    if (functionName === "" && url === "" && parent !== undefined) return nameOf(parent);
    return url === "" || url.startsWith("node:") ? functionName || url : `${functionName || "anonymous"}:${lineNumber}`;
  };
  // Both clocks count from the same start of the machine.
  const zeroMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  let micros = startTime;
  return samples.map((id, i) => {
    micros += timeDeltas[i] ?? 0;
    const known = names.get(id) ?? nameOf(id);
    names.set(id, known);
    return { at: micros / 1_000 - zeroMs, ran: known };
  });
}

let samplesToo = false;

async function begin(samples: boolean): Promise<void> {
  if (samples) {
    await ask("Profiler.enable");
    await ask("Profiler.setSamplingInterval", { interval: sampleEveryMicros });
    await ask("Profiler.start");
  }
  samplesToo = samples;
  [noted, isOn, collections, writes] = [0, true, [], []];
  note();
}

async function end(): Promise<Recorded> {
  // Entries of collections arrive later.
  await sleep(50);
  isOn = false;
  const samples = samplesToo ? samplesOf((await ask<{ readonly profile: Profile }>("Profiler.stop")).profile) : [];
  return { wallMs: wallOffset(), turns: [...turns.subarray(0, noted * 4)], collections, samples, writes };
}

process.on("message", (asked) => {
  void (asked !== "end"
    ? begin(asked === "sample").then(() => process.send?.("begun"))
    : end().then((all) => process.send?.(all)));
});
process.channel?.unref();
