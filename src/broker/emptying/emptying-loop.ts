import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { createHeldLease } from "../../store/held-lease.ts";
import { partsOf, under } from "../../store/keys.ts";
import { runningEmptyingSpace } from "../setup/setup-collections.ts";
import type { RunEmptying } from "./emptying-run.ts";

/** Carries out the emptyings, in one replica for all. A restart continues where the process ended. */
export interface EmptyingLoop {
  start(): void;
  wake(): void;
  close(): Promise<void>;
}

interface EmptyingLoopOptions {
  readonly store: Store;
  readonly run: RunEmptying;
  readonly world: World;
}

const leaseMs = 15_000;
const scanEveryMs = 500;
const mostAtOnce = 20;

export async function openEmptyingLoop({ store, run, world }: EmptyingLoopOptions): Promise<EmptyingLoop> {
  const lease = createHeldLease({ store, name: "emptying", lengthMs: leaseMs });
  const stopping = new AbortController();
  const { signal } = stopping;
  let isDirty = true;

  const loop = createScanLoop({
    everyMs: scanEveryMs,
    isAtRest: () => !isDirty,
    scan,
    onFailure(err) {
      isDirty = true;
      // Another replica counts on: it has the lease.
      if (!signal.aborted && !(err instanceof StaleWrite)) {
        world.log.warn("could not empty an environment; will retry", { err });
      }
    },
  });

  const watch = await follow({
    store,
    world,
    spaces: [runningEmptyingSpace],
    read: async () => () => {
      isDirty = true;
    },
    onCommit({ changes }) {
      if (!changes.some(({ key }) => key.startsWith(`${runningEmptyingSpace}\0`))) return;
      isDirty = true;
      loop.stir();
    },
  });

  /** Returns how many it worked on. */
  async function scan(): Promise<number> {
    if (!isDirty) return 0;
    isDirty = false;
    const found = await store.list({ ...under(runningEmptyingSpace), limit: mostAtOnce });
    if (found.length === 0) return 0;
    // Stays dirty until nothing runs: another replica may have the lease, and stop.
    isDirty = true;
    if ((await lease.hold()) === undefined) return 0;
    // Holds the lease during long passes.
    const held = setInterval(() => void lease.hold().catch(() => undefined), leaseMs / 5);
    try {
      // One after another: each uses all that the store gives.
      for (const { key } of found) if (!signal.aborted) await run(partsOf(key).at(-1) ?? "", { signal });
    } finally {
      clearInterval(held);
    }
    return found.length;
  }

  return {
    start: () => loop.start(),
    wake() {
      isDirty = true;
      loop.wake();
    },
    async close() {
      stopping.abort();
      watch.close();
      await loop.stop();
      await lease.release();
    },
  };
}
