import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { createHeldLease } from "../../store/held-lease.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { RunDeletion } from "./deletion-run.ts";
import { runningDeletionSpace } from "./end-user-collections.ts";

/** Carries out the deletions of end users, in one replica for all. A restart continues where the process ended. */
export interface DeletionLoop {
  start(): void;
  wake(): void;
  close(): Promise<void>;
}

const leaseMs = 15_000;
const scanEveryMs = 500;
const mostAtOnce = 20;

export async function openDeletionLoop({
  store,
  run,
  world,
}: {
  readonly store: Store;
  readonly run: RunDeletion;
  readonly world: World;
}): Promise<DeletionLoop> {
  const lease = createHeldLease({ store, name: "end-users", lengthMs: leaseMs });
  const stopping = new AbortController();
  const { signal } = stopping;
  let isDirty = true;

  const watch = await follow({
    store,
    world,
    spaces: [runningDeletionSpace],
    read: async () => () => {
      isDirty = true;
    },
    onCommit({ changes }) {
      if (changes.some(({ key }) => key.startsWith(`${runningDeletionSpace}\0`))) isDirty = true;
    },
  });

  const loop = createScanLoop({
    everyMs: scanEveryMs,
    scan,
    onFailure(err) {
      isDirty = true;
      if (!signal.aborted) world.log.warn("could not delete end users; will retry", { err });
    },
  });

  /** Returns how many deletions it worked on. */
  async function scan(): Promise<number> {
    if (!isDirty) return 0;
    isDirty = false;
    const found = await store.list({ ...under(runningDeletionSpace), limit: mostAtOnce });
    if (found.length === 0) return 0;
    // Stays dirty until nothing runs: another replica may have the lease, and stop.
    isDirty = true;
    if ((await lease.hold()) === undefined) return 0;
    // Holds the lease during long passes.
    const held = setInterval(() => void lease.hold().catch(() => undefined), leaseMs / 5);
    try {
      await Promise.all(found.map(({ key }) => run(partsOf(key).slice(-2), { signal })));
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
