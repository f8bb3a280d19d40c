import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import { StoreUnavailable } from "../../store/contract.ts";

/**
 * Reads once more what the store could not answer in passing: a connection to a database that broke is made anew
 * within a moment. Nobody waits for a store that is away: once somebody has waited in vain, the others are told at
 * once, so that those who need memory alone are not turned away for the sake of many that wait.
 */
export interface RetryingReads {
  <T>(read: () => Promise<T>): Promise<T>;
  close(): void;
}

const patienceMs = 1_000;
/** On the average, and not all at once. */
const againMs = 100;

export function createRetryingReads(log: Log): RetryingReads {
  let inVainAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  async function patiently<T>(read: () => Promise<T>): Promise<T> {
    const until = performance.now() + patienceMs;
    for (;;) {
      try {
        const found = await read();
        inVainAt = Number.NEGATIVE_INFINITY;
        return found;
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || isClosed) throw error;
        const now = performance.now();
        if (now > until || now < inVainAt + patienceMs) {
          inVainAt = now;
          throw error;
        }
        log.debug("the store could not be read: once more", { err: error });
        await sleep(againMs * (0.5 + Math.random()));
      }
    }
  }

  return Object.assign(patiently, {
    close() {
      isClosed = true;
    },
  });
}
