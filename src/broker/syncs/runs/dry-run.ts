import type { JsonObject } from "@bufbuild/protobuf";
import { depthOf } from "../../../core/connection-rules.ts";
import { type Script, ToolFailure } from "../../../core/scripts/script.ts";
import type { SyncTools } from "../toolbox/tool.ts";

/** A dry run of a sync, which collects writes instead of saving them. */
export interface DryRun {
  readonly tools: SyncTools;
  report(): DryRunReport;
}

export interface DryRunReport {
  readonly changes: readonly DryRunChange[];
  /** Checkpoint at the start; undefined if there was none. */
  readonly checkpoint: JsonObject | undefined;
  /** Last checkpoint that the run saved; undefined if the run saved none, or cleared it. */
  readonly savedCheckpoint: JsonObject | undefined;
  readonly isCheckpointCleared: boolean;
}

export interface DryRunChange {
  readonly model: string;
  readonly action: "save" | "update" | "delete";
  readonly count: number;
  /** The first records, each limited in size. */
  readonly records: readonly JsonObject[];
}

const maxRecords = 100;
/** Limit in bytes of JSON. A larger record is shown by its id. */
const maxRecordBytes = 4 * 1024;
/** Nesting limit of protobuf readers. */
const maxDepth = 30;

/** Creates a dry run that starts from the sync's current `checkpoint`. */
export function createDryRun(script: Script, checkpoint: JsonObject | undefined): DryRun {
  const changes = new Map<
    string,
    { -readonly [K in keyof DryRunChange]: DryRunChange[K] } & { records: JsonObject[] }
  >();
  const models = script.kind === "sync" ? Object.keys(script.models) : [];
  let current = checkpoint;
  let isSaved = false;

  const requireModel = (model: string): void => {
    if (!models.includes(model)) throw new ToolFailure("unknown_model", `the sync declares no model "${model}"`);
  };
  const collect = (action: DryRunChange["action"]) => async (model: string, records: readonly JsonObject[]) => {
    requireModel(model);
    const key = `${action} ${model}`;
    const change = changes.get(key) ?? { model, action, count: 0, records: [] };
    changes.set(key, change);
    change.count += records.length;
    change.records.push(...records.slice(0, maxRecords - change.records.length).map(bounded));
  };

  return {
    tools: {
      save: collect("save"),
      update: collect("update"),
      delete: collect("delete"),
      byIds: async () => [],
      trackDeletes: async (model) => requireModel(model),
      checkpoint: async () => current,
      async setCheckpoint(next) {
        current = next;
        isSaved = true;
      },
    },
    report: () => ({
      changes: [...changes.values()],
      checkpoint,
      savedCheckpoint: isSaved ? current : undefined,
      isCheckpointCleared: isSaved && current === undefined,
    }),
  };
}

function bounded(record: JsonObject): JsonObject {
  const { length } = JSON.stringify(record);
  if (length <= maxRecordBytes && depthOf(record) <= maxDepth) return record;
  const id = record["id"];
  return { ...(typeof id === "string" || typeof id === "number" ? { id } : {}), _too_large_to_show: length };
}
