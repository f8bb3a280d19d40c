import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Spreads a wave of runs that are due at once. What a run asks for is done by the thread that the proxy has, some
 * milliseconds of it each: begun one upon the other they would be in the way of every request. So one begins when
 * that thread has had nothing to do for a while since the last one did, and after a moment however much it has to do.
 */
export interface RunPace {
  /** Resolves when one more may begin. */
  turn(): Promise<void>;
}

/** For each millisecond that the thread was busy it is to have been idle so many. */
const idleForBusy = 2;
/** In a process that is never idle this many milliseconds lie between two: runs are to end all the same. */
const mostMs = 50;

export function createRunPace(): RunPace {
  let begunAt = Number.NEGATIVE_INFINITY;
  let mark = performance.eventLoopUtilization();

  function leftMs(): number {
    const { active, idle } = performance.eventLoopUtilization(mark);
    return Math.min(active * idleForBusy - idle, begunAt + mostMs - performance.now());
  }

  return {
    async turn() {
      for (let ms = leftMs(); ms > 0; ms = leftMs()) await sleep(Math.ceil(ms));
      begunAt = performance.now();
      mark = performance.eventLoopUtilization();
    },
  };
}
