import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../base/log.ts";
import { type Backend, StoreUnavailable } from "./contract.ts";
import { createRetryingReads } from "./retrying-reads.ts";

/**
 * A backend that waits for a store that is unavailable. During startup it retries every operation until it succeeds, so
 * that a database failure neither leaves anything half open nor ends the process. Afterwards it retries reads for a
 * moment (see `retrying-reads.ts`), and commits never: a failed commit may have been applied.
 *
 * Startup retries also commits whose outcome is unknown. If such a commit was applied, the retry is refused as stale,
 * which startup code must handle anyway: another replica may have done the same.
 */
export interface WaitingBackend {
  readonly backend: Backend;
  /** Ends the startup phase. */
  end(): void;
}

interface WaitingOptions {
  readonly backend: Backend;
  /** Called with the reason while waiting; with undefined when no operation waits any more. */
  readonly onObstacle: (reason: string | undefined) => void;
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined;
  readonly log: Log;
}

const tryAgainEveryMs = 250;

export function createWaitingBackend({ backend, onObstacle, signal, log }: WaitingOptions): WaitingBackend {
  const retried = createRetryingReads(log);
  const { sessions } = backend;
  let isStarting = true;
  /** Number of operations that are waiting. */
  let waiting = 0;

  async function untilDone<T>(operation: () => Promise<T>): Promise<T> {
    let hasWaited = false;
    try {
      for (;;) {
        try {
          return await operation();
        } catch (error) {
          if (!(error instanceof StoreUnavailable) || !isStarting || signal?.aborted) throw error;
          if (!hasWaited) waiting += 1;
          hasWaited = true;
          onObstacle(backend.status().reason ?? error.message);
          // An aborted sleep ends at once, and the next failure is final.
          await sleep(tryAgainEveryMs, undefined, signal === undefined ? {} : { signal }).catch(() => {});
        }
      }
    } finally {
      if (hasWaited) waiting -= 1;
      if (hasWaited && waiting === 0) onObstacle(undefined);
    }
  }

  const reading = <T>(read: () => Promise<T>): Promise<T> => (isStarting ? untilDone(read) : retried(read));

  return {
    backend: {
      ...backend,
      get: (key) => reading(() => backend.get(key)),
      getMany: (keys) => reading(() => backend.getMany(keys)),
      list: (range) => reading(() => backend.list(range)),
      keys: (range) => reading(() => backend.keys(range)),
      // Repeating it is harmless.
      discard: (range, fence) => reading(() => backend.discard(range, fence)),
      commit(changes, conditions, timing) {
        const commit = () => backend.commit(changes, conditions, timing);
        return isStarting ? untilDone(commit) : commit();
      },
      watch: (from, watcher) => reading(() => backend.watch(from, watcher)),
      caughtUp() {
        let behind = backend.caughtUp();
        if (behind === undefined) return undefined;
        return reading(async () => {
          const first = behind;
          behind = undefined;
          await (first ?? backend.caughtUp());
        });
      },
      clock: () => reading(() => backend.clock()),
      sessions: sessions && {
        current: () => sessions.current(),
        hasEnded: (session) => reading(() => sessions.hasEnded(session)),
      },
      close() {
        retried.close();
        return backend.close();
      },
    },
    end() {
      isStarting = false;
    },
  };
}
