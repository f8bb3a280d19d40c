import { performance } from "node:perf_hooks";

/**
 * Leaves the event loop idle for a while when it has been busy: for work that nobody is kept waiting by for long, in a
 * thread that others' requests need. A burst goes through at once.
 */
export interface LoopShare {
  /** How long it should rest before more of this work is begun; 0: it may be now. */
  restMs(): number;
}

interface LoopShareOptions {
  /** For each millisecond that the loop was busy, with whatever it was, it is to be idle so many. */
  readonly idleForBusy: number;
  /** So much of that may be owed. */
  readonly owedMs: number;
  /** However busy the loop is with other things, some of this work is begun after so long. */
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
      // What was idle is not saved up; and what was rested for is not owed any more.
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
