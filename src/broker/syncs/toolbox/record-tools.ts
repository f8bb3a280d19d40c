import { createLimiter } from "../../../base/limiter.ts";
import { depthOf } from "../../../core/connection-rules.ts";
import { ToolFailure } from "../../../core/scripts/script.ts";
import type { NamedTools, SyncTools, Tool, ToolsRun } from "./tool.ts";
import { invalidArgument, isObject, objectArgument, textArgument } from "./tool-arguments.ts";

/** Nesting limit of values that are stored as protobuf, whose readers allow no more. */
const maxDepth = 32;
const maxCheckpointBytes = 256 * 1024;
/** Larger batches are written by one run at a time: each takes milliseconds of the proxy's thread. */
const smallBatch = 50;

/** Tools for the records and the checkpoint of a sync. Other scripts have none of them. */
export function createRecordTools(): NamedTools {
  const limiter = createLimiter(1);

  const batch =
    (verb: "save" | "update" | "delete"): Tool =>
    async (run, [records, model]) => {
      const sync = syncOf(run, batchTools[verb]);
      const name = textArgument(model, "model");
      if (!Array.isArray(records) || !records.every(isObject)) {
        throw invalidArgument("`records` must be a list of objects");
      }
      if (run.isDryRun) {
        await sync[verb](name, records);
        run.log.info(wouldBe[verb], { model: name, count: records.length });
        return true;
      }
      const done = records.length > smallBatch ? await limiter("many") : () => {};
      try {
        await sync[verb](name, records);
      } finally {
        done();
      }
      return true;
    };

  const trackDeletes =
    (step: "start" | "end"): Tool =>
    async (run, [model]) => {
      await syncOf(run, "trackDeletes").trackDeletes(textArgument(model, "model"), step);
      return undefined;
    };

  return {
    [batchTools.save]: batch("save"),
    [batchTools.update]: batch("update"),
    [batchTools.delete]: batch("delete"),
    async getRecordsByIds(run, [ids, model]) {
      if (!Array.isArray(ids)) throw invalidArgument("`ids` must be a list");
      return syncOf(run, "getRecordsByIds").byIds(textArgument(model, "model"), ids.map(String));
    },
    trackDeletesStart: trackDeletes("start"),
    trackDeletesEnd: trackDeletes("end"),
    deleteRecordsFromPreviousExecutions: trackDeletes("end"),
    getCheckpoint: async (run) => (await syncOf(run, "getCheckpoint").checkpoint()) ?? null,
    async saveCheckpoint(run, [checkpoint]) {
      const sync = syncOf(run, "saveCheckpoint");
      const value = objectArgument(checkpoint, "checkpoint");
      if (depthOf(value) > maxDepth || Buffer.byteLength(JSON.stringify(value)) > maxCheckpointBytes) {
        throw invalidArgument(
          `\`checkpoint\` must be at most ${maxDepth} levels deep and ${maxCheckpointBytes / 1024} KiB`,
        );
      }
      await sync.setCheckpoint(value);
      return undefined;
    },
    async clearCheckpoint(run) {
      await syncOf(run, "clearCheckpoint").setCheckpoint(undefined);
      return undefined;
    },
  };
}

function syncOf({ sync }: ToolsRun, tool: string): SyncTools {
  if (sync !== undefined) return sync;
  throw new ToolFailure("not_a_sync", `nango.${tool} is available in syncs only`);
}

const batchTools = { save: "batchSave", update: "batchUpdate", delete: "batchDelete" } as const;
const wouldBe = {
  save: "records would be saved",
  update: "records would be updated",
  delete: "records would be deleted",
} as const;
