import type { LoopShare } from "./loop-share.ts";

/**
 * Background work that runs after everything else in a tick of the event loop, a few pieces per tick. Responses that
 * callers wait for come first, and longer ticks mean fewer pieces, so that the results of this work (responses and
 * commits) never fill a tick. The number of pieces under way is limited elsewhere: waiting costs no CPU.
 */
export interface WriteBehind {
  /** Call when there may be work to begin. */
  soon(): void;
  close(): void;
}

interface WriteBehindOptions {
  /** Begins one piece of work; returns false if there was none. */
  readonly begin: () => boolean;
  /** Maximum number of pieces per tick. */
  readonly most: number;
  /** Maximum per tick while the loop is busy. */
  readonly few: number;
  /** Share of the loop's time that is left to other work in addition. */
  readonly share?: LoopShare;
}

/** Longer than a tick that has only such work. */
const longMs = 5;

export function createWriteBehind({ begin, most, few, share }: WriteBehindOptions): WriteBehind {
  let next: NodeJS.Immediate | undefined;
  let rest: NodeJS.Timeout | undefined;
  let askedAt = 0;
  let isClosed = false;

  function turn(): void {
    next = undefined;
    const count = performance.now() - askedAt > longMs ? few : most;
    for (let begun = 0; begun < count; begun += 1) if (isToRest() || !begin()) return;
    soon();
  }

  function isToRest(): boolean {
    const ms = share?.restMs() ?? 0;
    if (ms === 0) return false;
    rest = setTimeout(() => {
      rest = undefined;
      soon();
    }, ms);
    return true;
  }

  function soon(): void {
    if (isClosed || next !== undefined || rest !== undefined) return;
    askedAt = performance.now();
    // A microtask would be too early: microtasks of this tick are still running then.
    next = setImmediate(turn);
  }

  return {
    soon,
    close() {
      isClosed = true;
      clearImmediate(next);
      clearTimeout(rest);
    },
  };
}
