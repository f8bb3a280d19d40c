import { type AdaptiveBeat, createAdaptiveBeat } from "./loop/adaptive-beat.ts";

/** Repeats a scan at an interval, and at once when it is woken. Two scans never run at the same time. */
export interface ScanLoop {
  /** Begins to scan at the interval. Before that, `wake` does nothing. */
  start(): void;
  /** Scans now. A wake during a scan leads to one more scan after it, since the running one may have passed the change. */
  wake(): void;
  /** Something may be due: ends the rest. The next scan comes after the interval. */
  stir(): void;
  /** Joins the running scan or runs one. Returns how much the scan began; 0 if it failed. */
  scanNow(): Promise<number>;
  /** Resolves when no scan runs. */
  idle(): Promise<void>;
  /** Ends the interval and resolves when no scan runs. */
  stop(): Promise<void>;
}

interface ScanLoopOptions {
  readonly everyMs: number;
  /** After a few scans while this is true, scans once a second until `stir`, or a scan that finds it false. */
  readonly isAtRest?: () => boolean;
  /** Returns how much it began. */
  readonly scan: () => Promise<number>;
  readonly onFailure: (error: unknown) => void;
  /** Runs before each scan that the interval begins. */
  readonly onInterval?: () => void;
}

const restMs = 1_000;

export function createScanLoop(options: ScanLoopOptions): ScanLoop {
  const { everyMs, isAtRest = () => false, scan, onFailure, onInterval } = options;
  let beat: AdaptiveBeat | undefined;
  let running: Promise<number> | undefined;
  let isWoken = false;

  function wake(): void {
    if (beat === undefined) return;
    if (running === undefined) void scanNow();
    else isWoken = true;
  }

  function scanNow(): Promise<number> {
    running ??= scan()
      .catch((error: unknown) => {
        onFailure(error);
        return 0;
      })
      .finally(() => {
        running = undefined;
        if (!isWoken) return;
        isWoken = false;
        wake();
      });
    return running;
  }

  async function idle(): Promise<void> {
    while (running !== undefined) await running;
  }

  return {
    start() {
      // The wall clock may be set: a short interval finds what is due, a timer until the due time would not.
      beat ??= createAdaptiveBeat({
        busyMs: everyMs,
        restMs: Math.max(everyMs, restMs),
        run() {
          onInterval?.();
          wake();
          return !isAtRest();
        },
      });
    },
    wake,
    stir: () => beat?.quicken(),
    scanNow,
    idle,
    async stop() {
      beat?.stop();
      beat = undefined;
      await idle();
    },
  };
}
