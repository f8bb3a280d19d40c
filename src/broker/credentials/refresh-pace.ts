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
 * They go on in step, since they share reads and commits, and the fewer they are, the less they share: with a rest that
 * lets a thousand begin in five seconds, these took 1.7 s of CPU by six, 1.8 to 2.3 by four, 2.4 by two, 2.7 one by one.
 */
const few = 6;
/**
 * Idle in all, since those before began. So they take a third of a loop that has nothing else to do, and a thousand are
 * fresh within five seconds. What others wait for is seldom a renewal then, but a collection that one brought about, or
 * a core that somebody else has; and of both there are as many in twice the time.
 */
const restMs = 14;
/** While others keep the loop busy, so that whoever waits for a renewal gets a share of it: 150 a second. */
const longestMs = 40;
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
