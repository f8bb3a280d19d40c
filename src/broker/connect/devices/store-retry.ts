import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../../base/log.ts";
import { faultOfStore } from "../../stored/store-fault.ts";

/** Repeats what needs the store while the store is unavailable. */
export type RetryWhileUnavailable = <T>(act: () => Promise<T>) => Promise<T>;

interface RetryOptions {
  /** Ends the retries: the last error is then thrown. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

const retryEveryMs = 1_000;

export const createRetryWhileUnavailable =
  ({ signal, log }: RetryOptions): RetryWhileUnavailable =>
  async (act) => {
    for (;;) {
      try {
        return await act();
      } catch (error) {
        if (!isStoreUnavailable(error) || signal.aborted) throw error;
        log.warn("store unavailable; device authorization waits and will retry", { err: error });
        await sleep(retryEveryMs, undefined, { signal }).catch(() => {
          throw error;
        });
      }
    }
  };

export const isStoreUnavailable = (error: unknown): boolean => faultOfStore(error).code === "store_unavailable";
