import {
  type RecordModel,
  RecordModelSchema,
  type StoredRun,
  StoredRunSchema,
  type StoredSync,
  StoredSyncSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { sortable } from "../stored/sortable-time.ts";

/** Records of the customer's syncs, of script runs, and of the models that syncs save. */
export function createSyncCollections(store: Store) {
  return {
    syncs: createRecords({
      store,
      name: "sync",
      schema: StoredSyncSchema,
      key: ({ environment, integration, connectionId, name, variant }: StoredSync) => [
        ...[environment, integration, connectionId],
        ...[name, variant],
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
    recordModels: createRecords({
      store,
      name: "record-model",
      schema: RecordModelSchema,
      key: ({ connectionNumber, model, variant }: RecordModel) => [String(connectionNumber), model, variant],
      keyParts: 3,
      indexes: { touched: ({ touchedMs }: RecordModel) => (touchedMs === 0 ? [] : [[sortable(touchedMs)]]) },
    }),
  } as const;
}
