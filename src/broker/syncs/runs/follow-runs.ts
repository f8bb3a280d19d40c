import type { World } from "../../../base/world.ts";
import type { Store, Watch } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { partsOf } from "../../../store/keys.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { DueRuns } from "./due-runs.ts";
import type { RunningRuns } from "./running-runs.ts";

interface RunFollower {
  readonly store: Store;
  readonly collections: Pick<SyncCollections, "runs">;
  readonly due: Pick<DueRuns, "add" | "forget">;
  /** Only the runs of this process are decrypted. */
  readonly running: Pick<RunningRuns, "has" | "follow">;
  /** Scans for due runs at once. */
  readonly wake: () => void;
  readonly world: World;
}

/** Follows the changes of runs by all replicas: new runs are added, and runs that were cancelled are stopped. */
export function followRuns(follower: RunFollower): Promise<Watch> {
  const { store, collections, due, running, wake, world } = follower;
  return follow({
    store,
    world,
    spaces: ["run", "run.queued"],
    // Changes may have been missed: everything that is due is read again.
    read: async () => () => {
      due.forget();
      wake();
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        if (!change.key.startsWith("run")) continue;
        const [space, , id = ""] = partsOf(change.key);
        if (space === "run.queued" && change.value !== undefined) {
          due.add(change.key);
          wake();
        }
        if (space === "run" && running.has(id)) running.follow(id, collections.runs.read(change, revision)?.value);
      }
    },
  });
}
