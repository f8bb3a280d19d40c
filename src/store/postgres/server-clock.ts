/** Estimates the server's clock from its responses. */
export interface ServerClock {
  /** Returns the estimated current time of the server's clock, in milliseconds. */
  now(): number;
  /**
   * Takes in the server's time from a response to a request sent at `askedAt` (of `performance.now()`). A slow response
   * is a poor estimate: an earlier, faster one is better until it is too old.
   */
  set(serverMs: number, askedAt: number): void;
}

/** Assumed maximum drift between two clocks, as a fraction. */
const drift = 0.01;

export function createServerClock(): ServerClock {
  /** The error of the estimate is at most the response time. */
  let estimate: { readonly aheadMs: number; readonly tookMs: number; readonly at: number } | undefined;
  return {
    now: () => performance.now() + (estimate?.aheadMs ?? 0),
    set(serverMs, askedAt) {
      const at = performance.now();
      const tookMs = at - askedAt;
      const isBetter = estimate === undefined || tookMs <= estimate.tookMs + (at - estimate.at) * drift;
      if (isBetter) estimate = { aheadMs: serverMs - at, tookMs, at };
    },
  };
}
