import { readFileSync } from "node:fs";

/**
 * Measures durations that a test bounds. Time in which this thread was ready to work, but other processes had the
 * processors, does not count: a busy machine then turns no right answer into a red test. The work of the sidecar, which
 * runs in the same thread, counts fully, and so does everything that it waits for.
 */
export interface Stopwatch {
  /** Milliseconds since the start that count. */
  readonly ms: number;
  /** Milliseconds since the start that do not count. */
  readonly lateMs: number;
  /** All milliseconds since the start. */
  readonly passedMs: number;
}

export function startStopwatch(): Stopwatch {
  const startedAt = performance.now();
  const lateBefore = lateOfThread();
  return {
    get ms() {
      return this.passedMs - this.lateMs;
    },
    get lateMs() {
      return lateOfThread() - lateBefore;
    },
    get passedMs() {
      return performance.now() - startedAt;
    },
  };
}

/** How long this thread has waited for a processor so far, as Linux counts it; 0 where that is unknown. */
function lateOfThread(): number {
  try {
    // Nanoseconds on a processor, nanoseconds of waiting for one, turns.
    return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[1] ?? 0) / 1_000_000;
  } catch {
    return 0;
  }
}
