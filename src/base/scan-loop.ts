import { onBeat } from "./loop/beat.ts";

/** Repeats a scan at an interval, and at once when it is woken. Two scans never run at the same time. */
export interface ScanLoop {
  /** Begins to scan at the interval. Before that, `wake` does nothing. */
  start(): void;
  /** Scans now. A wake during a scan leads to one more scan after it, since the running one may have passed the change. */
  wake(): void;
  /** Joins the running scan or runs one. Returns how much the scan began; 0 if it failed. */
  scanNow(): Promise<number>;
  /** Resolves when no scan runs. */
  idle(): Promise<void>;
  /** Ends the interval and resolves when no scan runs. */
  stop(): Promise<void>;
}

interface ScanLoopOptions {
  readonly everyMs: number;
  /** Returns how much it began. */
  readonly scan: () => Promise<number>;
  readonly onFailure: (error: unknown) => void;
  /** Runs before each scan that the interval begins. */
  readonly onInterval?: () => void;
}

export function createScanLoop({ everyMs, scan, onFailure, onInterval }: ScanLoopOptions): ScanLoop {
  let stop: (() => void) | undefined;
  let running: Promise<number> | undefined;
  let isWoken = false;

  function wake(): void {
    if (stop === undefined) return;
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
      stop ??= onBeat(everyMs, () => {
        onInterval?.();
        wake();
      });
    },
    wake,
    scanNow,
    idle,
    async stop() {
      stop?.();
      stop = undefined;
      await idle();
    },
  };
}
