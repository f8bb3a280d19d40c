import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Condition } from "../../store/contract.ts";
import type {
  DeleteDetection,
  RecordsOf,
  RecordWriteOptions,
  SaveCounts,
  SyncRecords,
} from "../records/sync-records.ts";

/** What one run does to the records of its connection, and to nobody else's. */
export interface RunRecords {
  save(model: string, records: readonly JsonObject[]): Promise<SaveCounts>;
  update(model: string, records: readonly JsonObject[]): Promise<SaveCounts>;
  delete(model: string, records: readonly JsonObject[]): Promise<SaveCounts>;
  byIds(model: string, ids: readonly string[]): Promise<JsonObject[]>;
  /** From here on what is not saved is missed. */
  track(model: string): Promise<void>;
  /** What was missed is deleted; returns how many. */
  finish(model: string): Promise<number>;
  /** Those that are tracked and not finished. */
  tracked(): readonly string[];
  /** The run has looked at these, whether anything came of it or not. */
  touch(models: readonly string[]): Promise<void>;
  clear(models: readonly string[]): Promise<void>;
}

export interface RunRecordsOf {
  readonly ref: ConnectionRef;
  readonly connectionNumber: number;
  readonly variant: string;
  /** The run is under way, and nobody has ended it. */
  readonly conditions: readonly Condition[];
}

export function recordsOfRun(records: SyncRecords, { ref, conditions, ...of }: RunRecordsOf): RunRecords {
  const detections = new Map<string, DeleteDetection>();
  /** To write to them is to have to do with them. */
  const touched = new Set<string>();
  const writing: RecordWriteOptions = { conditions };
  const at = (model: string): RecordsOf => ({ connection: ref, model, ...of });

  return {
    async save(model, all) {
      const counts = await records.save(at(model), all, writing);
      touched.add(model);
      detections.get(model)?.seen(all);
      return counts;
    },
    async update(model, all) {
      const counts = await records.update(at(model), all, writing);
      detections.get(model)?.seen(all);
      return counts;
    },
    delete: (model, all) => records.delete(at(model), all, writing),
    async byIds(model, ids) {
      return [...(await records.getByIds(at(model), ids)).values()];
    },
    async track(model) {
      if (!detections.has(model)) detections.set(model, await records.detectDeletes(at(model), writing));
    },
    async finish(model) {
      const deleted = (await detections.get(model)?.finish()) ?? 0;
      detections.delete(model);
      return deleted;
    },
    tracked: () => [...detections.keys()],
    async touch(models) {
      for (const model of models) if (!touched.has(model)) await records.touch(at(model), writing);
    },
    async clear(models) {
      for (const model of models) await records.drop(at(model), writing);
    },
  };
}
