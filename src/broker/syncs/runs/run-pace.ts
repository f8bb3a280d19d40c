import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Spreads runs that are due at the same time. The requests of a run use the proxy's thread, some milliseconds each:
 * runs that start all at once would delay every request. A run therefore starts once that thread has been idle for a
 * while since the last start. If the thread stays busy, the run starts after `mostMs`.
 */
export interface RunPace {
  /** Resolves when the next run may start. */
  wait(): Promise<void>;
}

/** Required idle milliseconds for each busy millisecond of the thread. */
const idleForBusy = 2;
/** Longest wait between two starts, in milliseconds: runs must finish even in a process that is never idle. */
const maxWaitMs = 50;

export function createRunPace(): RunPace {
  let begunAt = Number.NEGATIVE_INFINITY;
  let mark = performance.eventLoopUtilization();

  function leftMs(): number {
    const { active, idle } = performance.eventLoopUtilization(mark);
    return Math.min(active * idleForBusy - idle, begunAt + maxWaitMs - performance.now());
  }

  return {
    async wait() {
      for (let ms = leftMs(); ms > 0; ms = leftMs()) await sleep(Math.ceil(ms));
      begunAt = performance.now();
      mark = performance.eventLoopUtilization();
    },
  };
}
