import { performance } from "node:perf_hooks";

/**
 * Limits when refreshes may start their work in this process: read, store the intent, send, store the result. A
 * thousand refreshes would keep the event loop busy and delay every other request in each tick.
 * Therefore a few start, and the loop must be idle for a while before the next few do. That leaves time for other work,
 * however long a refresh takes. Waiting for a provider costs no CPU and is not counted.
 */
export interface RefreshPace {
  /** Waits until one more may start. Resolves with a function that ends its work and may be called more than once. */
  begin(): Promise<() => void>;
  /** Counts work that never waits, such as storing a provider's response; refreshes yet to start wait for this work. */
  enter(): () => void;
}

/**
 * Refreshes that start together share reads and commits; smaller groups share less. The idle time was set so that a
 * thousand start in 5 s. They then took 1.7 s of CPU in groups of six, 1.8 to 2.3 s of four, 2.4 s of two, 2.7 s of
 * one.
 */
const few = 6;
/**
 * Total idle time of the loop since the previous group started. Refreshes then take a third of an otherwise idle loop,
 * and a thousand finish within 5 s. Other requests then seldom wait for a refresh. They wait for a garbage collection
 * that a refresh caused, or for a core in use elsewhere. Spreading the work over twice the time causes as many of both.
 */
const restMs = 14;
/** Maximum wait while other work keeps the loop busy, so that callers still get 150 refreshes a second. */
const longestMs = 40;
const lookEveryMs = 1;
/** Maximum at work at once. While the store does not respond, no more than this number wait for it. */
const most = 64;

export function createRefreshPace(): RefreshPace {
  const waiting: (() => void)[] = [];
  let busy = 0;
  /** How many may still start before the loop must be idle again. */
  let left = 0;
  let idleThen = 0;
  let then = Number.NEGATIVE_INFINITY;
  let looking: NodeJS.Timeout | undefined;

  function tryBegin(): boolean {
    if (busy >= most) return false;
    const { idle } = performance.eventLoopUtilization();
    const now = performance.now();
    if (idle - idleThen >= restMs || now - then >= longestMs) {
      left = few;
      idleThen = idle;
      then = now;
    }
    if (left === 0) return false;
    left -= 1;
    busy += 1;
    return true;
  }

  function look(): void {
    while (waiting.length > 0 && tryBegin()) waiting.shift()?.();
    if (waiting.length > 0) return;
    clearInterval(looking);
    looking = undefined;
  }

  function leaving(): () => void {
    let isGone = false;
    return () => {
      if (isGone) return;
      isGone = true;
      busy -= 1;
    };
  }

  return {
    async begin() {
      if (waiting.length > 0 || !tryBegin()) {
        looking ??= setInterval(look, lookEveryMs);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      return leaving();
    },
    enter() {
      busy += 1;
      return leaving();
    },
  };
}
