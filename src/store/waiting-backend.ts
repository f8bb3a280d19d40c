import { setTimeout as sleep } from "node:timers/promises";
import { type Backend, StoreUnavailable } from "./contract.ts";

/**
 * A backend for the time of a start: what it cannot do now is tried again until it can be done, so that a database
 * which fails halfway through a start leaves nothing half open, and ends no process. Once the start is over, it
 * fails at once, as ever.
 *
 * A commit whose outcome is unknown is tried again too. Where it was done, it is refused as stale, which is what a
 * start is prepared for: another replica may have done the same.
 */
export interface WaitingBackend {
  readonly backend: Backend;
  /** The start is over. */
  end(): void;
}

interface WaitingOptions {
  readonly backend: Backend;
  /** Why it waits; undefined: it waits no longer. */
  readonly onObstacle: (reason: string | undefined) => void;
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined;
}

const tryAgainEveryMs = 250;

export function createWaitingBackend({ backend, onObstacle, signal }: WaitingOptions): WaitingBackend {
  let isStarting = true;
  /** Operations that wait at the moment. */
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
          // An aborted sleep is over at once, and the next failure is the last.
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
