import type { LoopShare } from "./loop-share.ts";

/**
 * Work that comes behind everything else in a turn of the event loop, a few pieces in each: what others wait for comes
 * first, and the longer turns are, the fewer there are of these. So what comes from them, answers and commits, is never
 * more than a little of a turn. How many are under way is another matter: waiting for an answer is no work.
 */
export interface WriteBehind {
  /** There may be something to begin. */
  soon(): void;
  close(): void;
}

interface WriteBehindOptions {
  /** Begins one, and says whether there was one to begin. */
  readonly begin: () => boolean;
  /** In one turn. */
  readonly most: number;
  /** While others have much to do. */
  readonly few: number;
  /** What of the loop's time it leaves to others, beside that. */
  readonly share?: LoopShare;
}

/** Longer than a turn is that has only such work in it. */
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
    // Not a microtask: those of what this turn has brought are not through by then.
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
