import type { World } from "../../../base/world.ts";
import type { Store, Watch } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { partsOf } from "../../../store/keys.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { RunningRuns } from "./running-runs.ts";

interface RunFollower {
  readonly store: Store;
  readonly collections: Pick<SyncCollections, "runs">;
  /** Changes may have been missed: everything that is due must be read again. */
  readonly onMissed: () => void;
  /** A run was queued, under this key of `run.queued`. */
  readonly onQueued: (key: string) => void;
  /** Only the runs of this process are decrypted. */
  readonly running: Pick<RunningRuns, "has" | "follow">;
  readonly world: World;
}

/** Reports the changes of runs, by any replica, that concern the scheduler of this one. */
export function followRuns(follower: RunFollower): Promise<Watch> {
  const { store, collections, onMissed, onQueued, running, world } = follower;
  return follow({
    store,
    world,
    spaces: ["run", "run.queued"],
    read: async () => onMissed,
    onCommit({ changes, revision }) {
      for (const change of changes) {
        if (!change.key.startsWith("run")) continue;
        const [space, , id = ""] = partsOf(change.key);
        if (space === "run.queued" && change.value !== undefined) onQueued(change.key);
        if (space === "run" && running.has(id)) running.follow(id, collections.runs.read(change, revision)?.value);
      }
    },
  });
}
