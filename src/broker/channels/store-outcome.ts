import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import { StoreUnavailable } from "../../store/contract.ts";

const retryMs = 500;
const patienceMs = 20_000;

/** Retries while the store takes no writes: until the outcome of a request is stored, its record says `creating`. */
export async function storeOutcome<T>(log: Log, write: () => Promise<T>): Promise<T> {
  const until = performance.now() + patienceMs;
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || performance.now() > until) throw error;
      log.warn("could not store the outcome of a channel request; will retry", { err: error });
      await sleep(retryMs);
    }
  }
}
