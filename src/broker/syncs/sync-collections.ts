import {
  type StoredRun,
  StoredRunSchema,
  type StoredSync,
  StoredSyncSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf, partsOf } from "../../store/keys.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { keysUntil, sortable } from "../stored/sortable-time.ts";

/** Records of the customer's syncs and of script runs. */
export function createSyncCollections(store: Store) {
  return {
    syncs: createRecords({
      store,
      name: "sync",
      schema: StoredSyncSchema,
      key: ({ environment, integration, connectionId, name, variant }: StoredSync) => [
        environment,
        integration,
        connectionId,
        name,
        variant,
      ],
      keyParts: 5,
      complete,
      strip,
      indexes: {
        due: ({ dueMs, paused }: StoredSync) => (dueMs > 0 && !paused ? [[sortable(dueMs)]] : []),
      },
    }),
    runs: createRecords({
      store,
      name: "run",
      schema: StoredRunSchema,
      key: ({ run }: StoredRun) => [run?.connection?.environment ?? "", run?.id ?? ""],
      keyParts: 2,
      indexes: {
        connection: ({ run }: StoredRun) => {
          const { environment = "", integration = "", id = "" } = run?.connection ?? {};
          return [[environment, integration, id, run?.id ?? ""]];
        },
        queued: ({ run, dueMs }: StoredRun) => (run?.state === Run_State.QUEUED ? [[sortable(dueMs)]] : []),
        running: ({ run }: StoredRun) => (run?.state === Run_State.RUNNING ? [[]] : []),
      },
    }),
  } as const;
}

export type SyncCollections = ReturnType<typeof createSyncCollections>;

/** Range of the secondary index of syncs that are due by then; each key ends in the sync's key. */
export const syncsDue = (nowMs: number) => keysUntil("sync.due", nowMs);

/** Range of the secondary index of runs that may begin by then; each key ends in the run's key. */
export const runsDue = (nowMs: number) => keysUntil("run.queued", nowMs);

/** Reads the time from a key of such an index. */
export const timeOfDueKey = (key: string): number => Number(partsOf(key)[1]);

/** The stored value is encrypted: input and output of a run, as JSON. */
export const runInputKey = (environment: string, id: string) => keyOf("run-input", environment, id);

export const runOutputKey = (environment: string, id: string) => keyOf("run-output", environment, id);
