import type { JsonObject } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Broker } from "../../broker/broker.ts";
import { Run_State, type Sync, Sync_State } from "../../gen/latchkey/v1/sync_pb.ts";

/** Returns the id of a sync in the SDK's form. */
export const syncId = ({ ref }: Sync): string => {
  const { integration = "", id = "" } = ref?.connection ?? {};
  return [integration, id, ref?.name, ref?.variant].join("/");
};

/** Returns the state of a sync in the form that the SDK reads. */
export function syncJson(sync: Sync, scripts: Broker["scripts"]): JsonObject {
  const { ref, latestRun, nextRunAt, frequency, recordCounts, checkpoint } = sync;
  const { name = "", variant = "", connection } = ref ?? {};
  const script = scripts.find({ integration: connection?.integration ?? "", kind: "sync", name });
  const { startedAt, duration } = latestRun ?? {};
  const tookMs = duration === undefined ? undefined : Number(duration.seconds) * 1_000 + duration.nanos / 1e6;
  const endedMs =
    startedAt === undefined || tookMs === undefined ? undefined : timestampDate(startedAt).getTime() + tookMs;
  return {
    id: syncId(sync),
    connection_id: connection?.id ?? "",
    name,
    variant,
    type:
      latestRun?.cause === "webhook"
        ? "WEBHOOK"
        : script?.kind === "sync" && script.syncType === "full"
          ? "FULL"
          : "INCREMENTAL",
    status: statusName(sync),
    frequency,
    finishedAt: endedMs === undefined ? null : new Date(endedMs).toISOString(),
    nextScheduledSyncAt: nextRunAt === undefined ? null : timestampDate(nextRunAt).toISOString(),
    latestResult: Object.fromEntries(
      Object.entries(latestRun?.counts ?? {}).map(([model, { added, updated, deleted }]) => [
        model,
        { added: Number(added), updated: Number(updated), deleted: Number(deleted) },
      ]),
    ),
    recordCount: Object.fromEntries(Object.entries(recordCounts).map(([model, count]) => [model, Number(count)])),
    checkpoint: checkpoint ?? null,
  };
}

function statusName({ state, latestRun }: Sync): string {
  if (state === Sync_State.RUNNING) return "RUNNING";
  if (state === Sync_State.PAUSED) return "PAUSED";
  if (state === Sync_State.FAILED) return "ERROR";
  return latestRun?.state === Run_State.SUCCEEDED ? "SUCCESS" : "STOPPED";
}
