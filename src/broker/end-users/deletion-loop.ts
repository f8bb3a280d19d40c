import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import { partitionOf } from "../partitions/partition-of.ts";
import type { Partitions } from "../partitions/partitions.ts";
import { shareWork } from "../partitions/work-under-way.ts";
import type { RunDeletion } from "./deletion-run.ts";
import { runningDeletionSpace } from "./end-user-collections.ts";

/** Carries out the deletions of end users in this process's partitions. A restart continues where the process ended. */
export interface DeletionLoop {
  start(): void;
  wake(): void;
  close(): Promise<void>;
}

const scanEveryMs = 500;
const mostAtOnce = 20;
/** Deletions that a scan examines: those of other processes are passed over. */
const mostExamined = 1_000;

export async function openDeletionLoop({
  store,
  partitions,
  run,
  world,
}: {
  readonly store: Store;
  readonly partitions: Partitions;
  readonly run: RunDeletion;
  readonly world: World;
}): Promise<DeletionLoop> {
  const underWay = shareWork(partitions, () => {
    isDirty = true;
    loop.wake();
  });
  const stopping = new AbortController();
  const { signal } = stopping;
  let isDirty = true;

  const loop = createScanLoop({
    everyMs: scanEveryMs,
    isAtRest: () => !isDirty,
    scan,
    onFailure(err) {
      isDirty = true;
      if (!signal.aborted) world.log.warn("could not delete end users; will retry", { err });
    },
  });

  const watch = await follow({
    store,
    world,
    spaces: [runningDeletionSpace],
    read: async () => () => {
      isDirty = true;
    },
    onCommit({ changes }) {
      if (!changes.some(({ key }) => key.startsWith(`${runningDeletionSpace}\0`))) return;
      isDirty = true;
      loop.stir();
    },
  });

  /** Returns how many deletions it worked on. */
  async function scan(): Promise<number> {
    if (!isDirty) return 0;
    isDirty = false;
    const found = await store.list({ ...under(runningDeletionSpace), limit: mostExamined });
    const own = found.flatMap(({ key }) => ownDeletion(key) ?? []);
    if (own.length === 0) return 0;
    // Stays dirty until nothing runs.
    isDirty = true;
    const begun = own.filter(({ partition }) => partition.remainingMs() > 0).slice(0, mostAtOnce);
    const passes = begun.map(async ({ parts, partition }) => {
      await underWay.note(partition.number, pass(parts, partition));
    });
    await Promise.all(passes);
    return passes.length;
  }

  function ownDeletion(key: string) {
    const parts = partsOf(key).slice(-2);
    const partition = partitions.held(partitionOf(parts.join("\0")));
    return partition && { parts, partition };
  }

  async function pass(parts: readonly string[], partition: HeldPartition): Promise<void> {
    try {
      await run(parts, { fence: partition.fence, signal });
    } catch (error) {
      if (!partition.isLostBy(error)) throw error;
      partitions.lost(partition);
    }
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
    },
  };
}
