import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../base/log.ts";
import { StoreUnavailable } from "./contract.ts";

/**
 * Retries a read that the store could not answer because of a short fault: a broken database connection is replaced
 * within a moment. No read waits for a store that is down: once one read has timed out, later reads fail at once.
 * Requests that need only memory are then not rejected because many others wait.
 */
export interface RetryingReads {
  <T>(read: () => Promise<T>): Promise<T>;
  close(): void;
}

const patienceMs = 1_000;
/** Average delay between retries; random, so that reads do not retry all at once. */
const againMs = 100;

export function createRetryingReads(log: Log): RetryingReads {
  let failedAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  async function retried<T>(read: () => Promise<T>): Promise<T> {
    const until = performance.now() + patienceMs;
    for (;;) {
      try {
        const found = await read();
        failedAt = Number.NEGATIVE_INFINITY;
        return found;
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || isClosed) throw error;
        const now = performance.now();
        if (now > until || now < failedAt + patienceMs) {
          failedAt = now;
          throw error;
        }
        log.debug("store read failed; retrying", { err: error });
        await sleep(againMs * (0.5 + Math.random()));
      }
    }
  }

  return Object.assign(retried, {
    close() {
      isClosed = true;
    },
  });
}
