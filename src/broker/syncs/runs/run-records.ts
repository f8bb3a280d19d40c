import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Condition } from "../../../store/contract.ts";
import type { SaveCounts } from "../../records/record-batches.ts";
import type { DeleteDetection, RecordScope, RecordWriteOptions, SyncRecords } from "../../records/sync-records.ts";

/** Writes one run's changes to the records of its own connection. */
export interface RunRecords {
  save(model: string, records: readonly JsonObject[]): Promise<SaveCounts>;
  update(model: string, records: readonly JsonObject[]): Promise<SaveCounts>;
  delete(model: string, records: readonly JsonObject[]): Promise<SaveCounts>;
  byIds(model: string, ids: readonly string[]): Promise<JsonObject[]>;
  /** Starts delete detection: records that are not saved from now on count as missing. */
  track(model: string): Promise<void>;
  /** Deletes the missing records and returns how many. */
  finish(model: string): Promise<number>;
  /** Returns the models whose delete detection has not finished. */
  tracked(): readonly string[];
  /** Marks the models as handled by the run, whether records changed or not. */
  touch(models: readonly string[]): Promise<void>;
  clear(models: readonly string[]): Promise<void>;
}

export interface RunRecordsOf {
  readonly ref: ConnectionRef;
  readonly connectionNumber: number;
  readonly variant: string;
  /** Conditions of each write: the run is running, and no other process has ended it. */
  readonly conditions: readonly Condition[];
}

export function recordsOfRun(records: SyncRecords, { ref, conditions, ...of }: RunRecordsOf): RunRecords {
  const detections = new Map<string, DeleteDetection>();
  /** Models that the run has saved to: a save already marks the model. */
  const touched = new Set<string>();
  const writing: RecordWriteOptions = { conditions };
  const at = (model: string): RecordScope => ({ connection: ref, model, ...of });

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
