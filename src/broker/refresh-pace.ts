import { performance } from "node:perf_hooks";

/**
 * When renewals may begin what this process does for them: reading, writing down, asking, writing down. A thousand of
 * them would keep the event loop busy without a pause, and every other request would wait for it in each of its turns.
 * So a few begin, and then the loop rests before the next few do: however long they take, and whatever else there is
 * to do, renewals leave time to others. Waiting for a provider is no work, and is not counted.
 */
export interface RefreshPace {
  /** Waits until one more may begin; resolves to what says that its work is over, once or several times. */
  begin(): Promise<() => void>;
  /** What a provider has given waits for nobody; what is yet to begin waits for it. */
  enter(): () => void;
}

/**
 * They go on in step, since they share reads and commits, so that a turn of the loop is as long as they are many: of
 * two at a time a thousand took 1.9 s of CPU, of four 1.5; one by one they took 2.7.
 */
const few = 4;
/** Idle in all, since those before began. */
const restMs = 3;
/** While others keep the loop busy, so that whoever waits for a renewal gets a share of it: 330 a second. */
const longestMs = 12;
const lookEveryMs = 1;
/** At work at once: while the store stands still, no more wait for it than this. */
const most = 64;

export function createRefreshPace(): RefreshPace {
  const waiting: (() => void)[] = [];
  let busy = 0;
  /** How many may still begin before the loop has rested again. */
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
