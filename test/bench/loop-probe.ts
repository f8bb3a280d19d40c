/** Loaded into the sidecar's process before it: reports, on request, what its event loop did since the last report. */
import { readFileSync } from "node:fs";
import { monitorEventLoopDelay, PerformanceObserver, performance } from "node:perf_hooks";

/** Since the look before. In milliseconds, but for the share. */
export interface LoopLook {
  readonly wallMs: number;
  /** CPU time of the main thread. */
  readonly cpuMs: number;
  /** Time in which the thread could have run, but other processes had the cores. */
  readonly withoutCoreMs: number;
  /** Delay of a timer of one millisecond: the length of a tick, plus the wait for a core. */
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
  readonly lateMostMs: number;
  /** The thread's CPU time for one tick, whatever else the machine does: how long a call waits for its tick. */
  readonly turnP99Ms: number;
  readonly turnMostMs: number;
  /** Pauses of the loop for garbage collection: their sum and the longest. */
  readonly collectedMs: number;
  readonly collectedMostMs: number;
}

const resolutionMs = 1;
const delay = monitorEventLoopDelay({ resolution: resolutionMs });
delay.enable();
let pauses: number[] = [];
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) pauses.push(duration);
}).observe({ entryTypes: ["gc"] });

/** CPU between two looks that are a millisecond apart at least: in one turn, or in a few that are shorter. */
let turns: number[] = [];
let used = process.threadCpuUsage();
setInterval(() => {
  const now = process.threadCpuUsage();
  turns.push((now.user + now.system - used.user - used.system) / 1_000);
  used = now;
}, resolutionMs).unref();

/** A quantile weighted by duration: a tick that is twice as long delays twice as many calls. */
function turnOf(share: number): number {
  const sorted = turns.toSorted((a, b) => a - b);
  const lengthOf = (turn: number) => Math.max(resolutionMs, turn);
  const whole = sorted.reduce((sum, turn) => sum + lengthOf(turn), 0);
  let passed = 0;
  for (const turn of sorted) {
    passed += lengthOf(turn);
    if (passed >= share * whole) return turn;
  }
  return sorted.at(-1) ?? 0;
}

/** How long the main thread ran and how long it waited for a core, in milliseconds. */
function scheduled(): { readonly ranMs: number; readonly waitedMs: number } {
  const [ran = 0, waited = 0] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ").map(Number);
  return { ranMs: ran / 1e6, waitedMs: waited / 1e6 };
}

let before = { at: performance.now(), ...scheduled() };

function look(): LoopLook {
  const now = { at: performance.now(), ...scheduled() };
  const late = (ns: number) => Math.max(0, ns / 1e6 - resolutionMs);
  const looked: LoopLook = {
    wallMs: now.at - before.at,
    cpuMs: now.ranMs - before.ranMs,
    withoutCoreMs: now.waitedMs - before.waitedMs,
    lateP50Ms: late(delay.percentile(50)),
    lateP99Ms: late(delay.percentile(99)),
    lateMostMs: late(delay.max),
    turnP99Ms: turnOf(0.99),
    turnMostMs: Math.max(0, ...turns),
    collectedMs: pauses.reduce((sum, one) => sum + one, 0),
    collectedMostMs: Math.max(0, ...pauses),
  };
  before = now;
  delay.reset();
  pauses = [];
  turns = [];
  return looked;
}

process.on("message", () => process.send?.(look()));
process.channel?.unref();
