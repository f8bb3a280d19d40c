import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../../base/log.ts";

interface UntilStoredOptions {
  readonly log: Log;
  readonly signal: AbortSignal;
}

const retryMs = 500;

/** Repeats a write until the store takes it. Rejects only after the signal. */
export async function untilStored(write: () => Promise<void>, { log, signal }: UntilStoredOptions): Promise<void> {
  for (;;) {
    try {
      await write();
      return;
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn("could not store the result of a delivery; will retry", { err: error });
      await sleep(retryMs, undefined, { signal });
    }
  }
}
