import { performance } from "node:perf_hooks";

/**
 * Leaves the event loop idle for a while when it has been busy: for background work in a thread that serves requests.
 * A short burst runs at once.
 */
export interface LoopShare {
  /** Returns how long to rest before more of this work begins; 0: it may begin now. */
  restMs(): number;
}

interface LoopShareOptions {
  /** Idle milliseconds required for each busy millisecond, whatever the loop was busy with. */
  readonly idleForBusy: number;
  /** Limits the owed idle time. */
  readonly owedMs: number;
  /** Maximum rest: after this time some of the work begins, however busy the loop is. */
  readonly mostMs: number;
}

export function createLoopShare({ idleForBusy, owedMs, mostMs }: LoopShareOptions): LoopShare {
  let mark = performance.eventLoopUtilization();
  let restsUntil: number | undefined;

  return {
    restMs() {
      const now = performance.now();
      const { active, idle } = performance.eventLoopUtilization(mark);
      const owed = active * idleForBusy - idle;
      // Idle time is not saved up, and a completed rest clears the debt.
      if (owed <= 0 || (restsUntil !== undefined && now >= restsUntil)) {
        mark = performance.eventLoopUtilization();
        restsUntil = undefined;
        return 0;
      }
      if (owed <= owedMs) {
        restsUntil = undefined;
        return 0;
      }
      restsUntil ??= now + mostMs;
      // `now + mostMs - now` may be a little more than `mostMs`.
      return Math.max(1, Math.min(owed, mostMs, restsUntil - now));
    },
  };
}
