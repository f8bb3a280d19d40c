import { onBeat } from "./beat.ts";

/** Runs something often while there is something to do, and rarely otherwise: an idle process should not wake up. */
export interface AdaptiveBeat {
  /** False while it runs rarely. Callers on a hot path look at this before they call `quicken`. */
  readonly isQuick: boolean;
  /** Something begins: runs often from now on, first after the short interval. */
  quicken(): void;
  stop(): void;
}

interface AdaptiveBeatOptions {
  readonly busyMs: number;
  readonly restMs: number;
  /** Returns whether there is something to do. */
  readonly run: () => boolean;
}

/** Runs without anything to do before it slows down. */
const lastRuns = 4;

export function createAdaptiveBeat({ busyMs, restMs, run }: AdaptiveBeatOptions): AdaptiveBeat {
  let isQuick = true;
  let idleRuns = 0;
  let isStopped = false;
  let stop = onBeat(busyMs, beat);

  function change(quick: boolean): void {
    stop();
    isQuick = quick;
    idleRuns = 0;
    stop = onBeat(quick ? busyMs : restMs, beat);
  }

  function beat(): void {
    idleRuns = run() ? 0 : idleRuns + 1;
    if (isStopped) return;
    if (isQuick && idleRuns >= lastRuns) change(false);
    else if (!isQuick && idleRuns === 0) change(true);
  }

  return {
    get isQuick() {
      return isQuick;
    },
    quicken() {
      idleRuns = 0;
      if (!isQuick && !isStopped) change(true);
    },
    stop() {
      isStopped = true;
      stop();
    },
  };
}
