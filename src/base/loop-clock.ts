/**
 * A clock that stops while the event loop is blocked. A wall-clock timeout also counts the time in which this process
 * was too busy to read the response. Timers run before input in each lap of the loop, so after a pause every timeout
 * would fire, though no peer was late.
 */
export interface LoopClock {
  /** In milliseconds; advances only while a timeout is pending. */
  now(): number;
  /**
   * Calls back after this time, once the input that has arrived was handled; returns a function that cancels the
   * timeout.
   */
  after(ms: number, onOver: () => void): () => void;
  /** Cancels all timeouts. */
  close(): void;
}

interface Timeout {
  readonly at: number;
  readonly onOver: () => void;
}

const tickMs = 50;
/** Maximum that a tick counts for: a longer lap of the loop still reads the input only once. */
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
        // After the input that arrived while the loop was busy.
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
