/**
 * Periodic work of the whole process on one timer: each wake-up of an idle process costs more than the work it wakes
 * for, so everything that is due at about the same time runs in one.
 */

/** Intervals that are no multiple of this get a timer of their own. */
const beatMs = 250;

interface Periodic {
  readonly everyBeats: number;
  readonly run: () => void;
}

const all = new Set<Periodic>();
let timer: NodeJS.Timeout | undefined;
let beats = 0;

function beat(): void {
  beats += 1;
  for (const { everyBeats, run } of all) {
    if (beats % everyBeats !== 0) continue;
    try {
      run();
    } catch (error) {
      // An unhandled error, as of a timer; the others still run.
      process.nextTick(() => {
        throw error;
      });
    }
  }
}

/**
 * Runs something at an interval; returns the function that ends it. The first run may come up to one interval early.
 * Does not keep the process alive.
 */
export function onBeat(everyMs: number, run: () => void): () => void {
  if (everyMs % beatMs !== 0) {
    const own = setInterval(run, everyMs).unref();
    return () => clearInterval(own);
  }
  const periodic = { everyBeats: everyMs / beatMs, run };
  all.add(periodic);
  timer ??= setInterval(beat, beatMs).unref();
  return () => {
    all.delete(periodic);
    if (all.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}
