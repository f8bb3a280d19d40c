import { timestampDate } from "@bufbuild/protobuf/wkt";
import { type RecordCounts, type Run, Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import type { ApplicationEvent } from "./envelope.ts";

/** A sync saved changes, or failed. The event has the peer's fields under the peer's names. */
export interface SyncEvent {
  readonly run: Run;
  readonly variant: string;
  readonly syncType: "full" | "incremental" | "webhook";
  /** Model name as stored under the connection; empty if the run failed. */
  readonly model: string;
  readonly counts: Pick<RecordCounts, "added" | "updated" | "deleted"> | undefined;
  readonly provider: string;
}

/** Returns one event for each changed model, or one for a failed run. A run without changes sends no event. */
export function syncEvents(about: Omit<SyncEvent, "model" | "counts">): SyncEvent[] {
  if (about.run.state === Run_State.FAILED) return [{ ...about, model: "", counts: undefined }];
  return Object.entries(about.run.counts)
    .filter(([, { added, updated, deleted }]) => added + updated + deleted > 0n)
    .map(([model, counts]) => ({ ...about, model, counts }));
}

export function toSyncEvent({ run, variant, syncType, model, counts, provider }: SyncEvent): ApplicationEvent {
  const { connection, script, startedAt, problem, id } = run;
  const began = startedAt === undefined ? undefined : timestampDate(startedAt).toISOString();
  return {
    type: "sync",
    connection,
    provider,
    fields: {
      syncName: script,
      syncVariant: variant,
      syncType: syncType.toUpperCase(),
      runId: id,
      success: counts !== undefined,
      ...(model !== "" && { model }),
      ...(counts === undefined
        ? { error: { type: problem?.code ?? "", description: problem?.message ?? "" }, startedAt: began }
        : {
            responseResults: {
              added: Number(counts.added),
              updated: Number(counts.updated),
              deleted: Number(counts.deleted),
            },
            // All changes since then came from this run.
            modifiedAfter: began,
          }),
    },
  };
}
