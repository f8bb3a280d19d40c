import { setTimeout as sleep } from "node:timers/promises";
import { type Backend, StoreUnavailable } from "./contract.ts";

/**
 * A backend for startup: retries failed operations until they succeed, so that a database failure during startup
 * neither leaves anything half open nor ends the process. After startup, operations fail at once, as usual.
 *
 * Retries also commits whose outcome is unknown. If such a commit was applied, the retry is refused as stale, which
 * startup code must handle anyway: another replica may have done the same.
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
}

const tryAgainEveryMs = 250;

export function createWaitingBackend({ backend, onObstacle, signal }: WaitingOptions): WaitingBackend {
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

  const patiently = <T>(operation: () => Promise<T>): Promise<T> => (isStarting ? untilDone(operation) : operation());

  return {
    backend: {
      ...backend,
      get: (key) => patiently(() => backend.get(key)),
      getMany: (keys) => patiently(() => backend.getMany(keys)),
      list: (range) => patiently(() => backend.list(range)),
      commit: (changes, conditions) => patiently(() => backend.commit(changes, conditions)),
      watch: (from, watcher) => patiently(() => backend.watch(from, watcher)),
      clock: () => patiently(() => backend.clock()),
    },
    end() {
      isStarting = false;
    },
  };
}
