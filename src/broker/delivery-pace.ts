/**
 * When deliveries are begun: behind everything else in a turn of the event loop, and a few in each. Receiving comes
 * first: what waits is safe, and a provider that is kept waiting gives up. So the longer turns are, the fewer
 * deliveries there are, and what comes from them, answers and commits, is never more than a little of a turn. How many
 * are under way is another matter: waiting for an answer is no work.
 */
export interface DeliveryPace {
  /** There may be something to begin. */
  soon(): void;
  close(): void;
}

/** As many as a commit should have to share: with 4 a delivery takes a quarter more CPU, and with more no less. */
export const mostInTurn = 16;
/** While others have much to do: half a millisecond of the loop's time, with all that comes from them. */
export const fewInTurn = 4;
/** Longer than a turn is that has only deliveries in it. */
const longMs = 5;

/** `begin` begins one, and says whether there was one to begin. */
export function createDeliveryPace(begin: () => boolean): DeliveryPace {
  let next: NodeJS.Immediate | undefined;
  let askedAt = 0;

  function turn(): void {
    next = undefined;
    const most = performance.now() - askedAt > longMs ? fewInTurn : mostInTurn;
    for (let begun = 0; begun < most; begun += 1) if (!begin()) return;
    soon();
  }

  function soon(): void {
    if (next !== undefined) return;
    askedAt = performance.now();
    // Not a microtask: those of a commit's acknowledgements are not through by then.
    next = setImmediate(turn);
  }

  return {
    soon,
    close() {
      clearImmediate(next);
      next = undefined;
    },
  };
}
