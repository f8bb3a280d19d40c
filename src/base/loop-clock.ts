/**
 * A clock that stands still while the event loop does. A time-out by the wall counts the time in which this process
 * was too busy to look whether the answer was there: timers come before input in each lap of the loop, so that after
 * a pause everything is late at once, though nobody was.
 */
export interface LoopClock {
  /** In milliseconds; goes on only while something is waited for. */
  now(): number;
  /** Calls once it is so much later, and what has arrived by then was seen to; returns what calls it off. */
  after(ms: number, onOver: () => void): () => void;
  /** Nothing is called any more. */
  close(): void;
}

interface Timeout {
  readonly at: number;
  readonly onOver: () => void;
}

const tickMs = 50;
/** What a tick counts for at most: a lap that takes longer is one look at the input all the same. */
const mostOfTickMs = 2 * tickMs;

export function createLoopClock(): LoopClock {
  const due = new Set<Timeout>();
  let elapsed = 0;
  let lookedAt = 0;
  let ticking: NodeJS.Timeout | undefined;

  function look(): void {
    const now = performance.now();
    elapsed += Math.min(mostOfTickMs, now - lookedAt);
    lookedAt = now;
    for (const one of [...due]) {
      if (one.at > elapsed) continue;
      due.delete(one);
      one.onOver();
    }
    if (due.size === 0) stop();
  }

  function stop(): void {
    clearInterval(ticking);
    ticking = undefined;
  }

  return {
    now: () => elapsed,
    after(ms, onOver) {
      if (ticking === undefined) {
        lookedAt = performance.now();
        // Behind what arrived while the loop did something else.
        ticking = setInterval(() => setImmediate(look), tickMs);
        ticking.unref();
      }
      const one = { at: elapsed + ms, onOver };
      due.add(one);
      return () => void due.delete(one);
    },
    close() {
      stop();
      due.clear();
    },
  };
}
