import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";
import { type Backend, StoreUnavailable } from "../store/contract.ts";
import type { StoreLocation } from "../store/location.ts";
import { openBackend } from "../store/open.ts";
import { localSealKey } from "../store/sealed/seal-key.ts";
import { openSealedStore, type SealedStore } from "../store/sealed/sealed.ts";
import { createWaitingBackend } from "../store/waiting-backend.ts";
import { StartFailure } from "./start-failure.ts";
import type { StoreTrouble } from "./store-trouble.ts";

export interface OpenStore {
  readonly store: SealedStore;
  readonly backend: Backend;
  /** Ends the startup phase: from now on only reads are retried, for a moment. */
  endStart(): void;
  close(): Promise<void>;
}

interface StoreOptions {
  readonly world: World;
  readonly trouble: StoreTrouble;
  /** Ends the waiting for a store that cannot be opened. */
  readonly signal: AbortSignal | undefined;
}

/** Opens the store that the configuration names; waits for it while it is unavailable. */
export async function openStore(config: Config, { world, trouble, signal }: StoreOptions): Promise<OpenStore> {
  const opened = await openWhenPossible(config.store, { world, trouble, signal });
  const { backend, end } = createWaitingBackend({
    backend: opened,
    onObstacle: trouble.setObstacle,
    signal,
    log: world.log,
  });
  try {
    const store = await openSealedStore({ backend, keys: config.sealKeys.map(localSealKey), world });
    return {
      store,
      backend,
      endStart: end,
      async close() {
        store.close();
        await backend.close();
      },
    };
  } catch (error) {
    await backend.close();
    throw error;
  }
}

const retryEveryMs = 1_000;

/**
 * Waits, not ready and with a reason, while the disk is full or the database is unreachable. Exiting to be restarted
 * would give the same result, with a flapping process on top.
 */
async function openWhenPossible(location: StoreLocation, { world, trouble, signal }: StoreOptions): Promise<Backend> {
  for (;;) {
    try {
      const backend = await openBackend(location, world);
      trouble.setObstacle(undefined);
      return backend;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      trouble.setObstacle(error.message);
    }
    await sleep(retryEveryMs, undefined, signal && { signal }).catch((cause: unknown) => {
      throw new StartFailure("stopped before the store could be opened", { cause });
    });
  }
}
