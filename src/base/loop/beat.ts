/**
 * Periodic work of the whole process on one timer: each wake-up of an idle process costs more than the work it wakes
 * for, so everything that is due at about the same time runs in one. The timer is as slow as all intervals allow.
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
/** The beats from one timer to the next. */
let step = 0;

/** Sets the timer to the greatest interval that all others are multiples of. */
function setTimer(): void {
  let common = 0;
  for (const { everyBeats } of all) common = greatestDivisor(common, everyBeats);
  if (common === step) return;
  clearInterval(timer);
  step = common;
  timer = common === 0 ? undefined : setInterval(beat, common * beatMs).unref();
  // Beats are counted from a moment that all intervals know.
  if (common > 0) beats -= beats % common;
}

function greatestDivisor(a: number, b: number): number {
  let [first, second] = [a, b];
  while (second !== 0) [first, second] = [second, first % second];
  return first;
}

function beat(): void {
  beats += step;
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
  setTimer();
  return () => {
    if (all.delete(periodic)) setTimer();
  };
}
