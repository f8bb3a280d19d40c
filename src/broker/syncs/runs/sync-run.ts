import { create } from "@bufbuild/protobuf";
import { type SyncScript, ToolFailure } from "../../../core/scripts/script.ts";
import { runOf, withCheckpoint } from "../../../core/scripts/sync-state.ts";
import type { StoredSync } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type RecordCounts, RecordCountsSchema } from "../../../gen/latchkey/v1/sync_pb.ts";
import { type Condition, StaleWrite, type Store } from "../../../store/contract.ts";
import { transact } from "../../../store/records.ts";
import type { SyncRecords } from "../../records/sync-records.ts";
import { syncOfRun } from "../stored-sync.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { SyncTools } from "../toolbox/tool.ts";
import { type RunRecords, recordsOfRun } from "./run-records.ts";
import type { StartedRun } from "./run-start.ts";

/**
 * The records and the checkpoint of a sync, as one run of it changes them. Each write requires that the run is still
 * running, and not ended by another process.
 */
export interface SyncRun {
  readonly tools: SyncTools;
  /** Drops all records of the sync's models, for a run that starts from nothing. */
  clear(): Promise<void>;
  /** Ends a successful run: deletes the records that a full run did not return. */
  finish(): Promise<void>;
}

/** Adds the counts of the run's changes to `counts`, by model. Returns undefined for a run of another script. */
export type OpenSyncRun = (started: StartedRun, counts: Map<string, RecordCounts>) => Promise<SyncRun | undefined>;

interface SyncRunOptions {
  readonly store: Store;
  readonly collections: SyncCollections;
  readonly records: SyncRecords;
}

export function createSyncRuns({ store, collections, records }: SyncRunOptions): OpenSyncRun {
  /** Returns the tools that read and save the checkpoint. */
  function checkpointOf({ run, ref }: StartedRun, sync: StoredSync, conditions: readonly Condition[]) {
    let { checkpoint } = sync;
    const tools: Pick<SyncTools, "checkpoint" | "setCheckpoint"> = {
      checkpoint: async () => checkpoint,
      async setCheckpoint(wanted) {
        await unlessTakenOver(
          transact(store, async () => {
            const [before, current] = await Promise.all([
              syncOfRun(collections.syncs, run.value),
              collections.runs.get(ref.environment, runOf(run.value).id),
            ]);
            if (before === undefined || current?.revision !== run.revision) throw takenOver();
            const after = withCheckpoint(before.value, wanted);
            return { changes: collections.syncs.change({ before, after }), conditions, result: undefined };
          }),
        );
        checkpoint = wanted;
      },
    };
    return tools;
  }

  return async (started, counts) => {
    const { run, ref, script, sync, connection } = started;
    if (script.kind !== "sync" || sync === undefined) return undefined;
    const conditions: readonly Condition[] = [collections.runs.unchanged(run)];
    const { variant, notificationId } = run.value;
    const kept = recordsOfRun(records, { ref, connectionNumber: connection.number, variant, conditions });
    const models = Object.keys(script.models);
    // A run that continues from a checkpoint has not seen the earlier records.
    const isWhole = script.syncType === "full" && notificationId === "" && sync.checkpoint === undefined;
    if (isWhole && script.trackDeletes) for (const model of models) await kept.track(model);
    const changes = countedChanges(script, kept, counts);
    return {
      tools: { ...changes.tools, ...checkpointOf(started, sync, conditions) },
      clear: () => unlessTakenOver(kept.clear(models)),
      async finish() {
        for (const model of kept.tracked()) await changes.finish(model);
        // Also touch the models without changes: models that no run lastUsed are removed eventually.
        if (notificationId === "") await unlessTakenOver(kept.touch(models));
      },
    };
  };
}

/** Returns the tools that change records, of the models that the sync declares. Each change is counted. */
function countedChanges(script: SyncScript, kept: RunRecords, counts: Map<string, RecordCounts>) {
  const count = (model: string, { added = 0, updated = 0, deleted = 0 }: Partial<ChangeCounts>) => {
    const before = counts.get(model) ?? create(RecordCountsSchema);
    counts.set(model, {
      ...before,
      added: before.added + BigInt(added),
      updated: before.updated + BigInt(updated),
      deleted: before.deleted + BigInt(deleted),
    });
  };
  const requireModel = (model: string) => {
    if (Object.hasOwn(script.models, model)) return;
    throw new ToolFailure("unknown_model", `the sync declares no model "${model}"`);
  };
  const finish = async (model: string) => count(model, { deleted: await unlessTakenOver(kept.finish(model)) });
  const changing =
    (verb: "save" | "update" | "delete"): SyncTools["save"] =>
    async (model, all) => {
      requireModel(model);
      count(model, await unlessTakenOver(kept[verb](model, all)));
    };
  const tools: Omit<SyncTools, "checkpoint" | "setCheckpoint"> = {
    save: changing("save"),
    update: changing("update"),
    delete: changing("delete"),
    byIds: (model, ids) => kept.byIds(model, ids),
    async trackDeletes(model, step) {
      requireModel(model);
      if (step === "start") await kept.track(model);
      else await finish(model);
    },
  };
  return { tools, finish };
}

interface ChangeCounts {
  readonly added: number;
  readonly updated: number;
  readonly deleted: number;
}

/** The run was taken over by another process, or is being cancelled: its further writes are rejected. */
const takenOver = () => new ToolFailure("cancelled", "the run has ended");

async function unlessTakenOver<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (error instanceof StaleWrite) throw takenOver();
    throw error;
  }
}
