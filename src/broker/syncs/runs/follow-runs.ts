import type { World } from "../../../base/world.ts";
import type { Store, Watch } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { partsOf } from "../../../store/keys.ts";
import { connectionPartition } from "../../partitions/own-work.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { DueRuns } from "./due-runs.ts";
import type { RunningRuns } from "./running-runs.ts";

interface RunFollower {
  readonly store: Store;
  readonly collections: Pick<SyncCollections, "runs">;
  readonly due: Pick<DueRuns, "add" | "remove" | "forget">;
  /** Only the runs of this process are decrypted. */
  readonly running: Pick<RunningRuns, "has" | "follow">;
  /** Whether runs of the partition belong to this process. */
  readonly isOwn: (partition: number) => boolean;
  /** Scans for due runs at once. */
  readonly wake: () => void;
  readonly world: World;
}

/** Follows the changes of runs by all replicas: new runs are added, and runs that were cancelled are stopped. */
export function followRuns(follower: RunFollower): Promise<Watch> {
  const { store, collections, due, running, isOwn, wake, world } = follower;
  return follow({
    store,
    world,
    spaces: ["run", "run.queued", "run.connection"],
    // Changes may have been missed: everything that is due is read again.
    read: async () => () => {
      due.forget();
      wake();
    },
    onCommit({ changes, revision }) {
      const partitions = new Map<string, number>();
      for (const { key } of changes) {
        if (!key.startsWith("run.connection\0")) continue;
        const [, environment = "", integration = "", connection = "", id = ""] = partsOf(key);
        partitions.set(id, connectionPartition(environment, integration, connection));
      }
      for (const change of changes) {
        if (!change.key.startsWith("run")) continue;
        const parts = partsOf(change.key);
        const space = parts[0];
        const id = parts.at(-1) ?? "";
        if (space === "run.queued" && change.value === undefined) due.remove(change.key);
        else if (space === "run.queued") {
          const partition = partitions.get(id);
          due.add(change.key, partition);
          if (partition === undefined || isOwn(partition)) wake();
        }
        if (space === "run" && running.has(id)) running.follow(id, collections.runs.read(change, revision)?.value);
      }
    },
  });
}
