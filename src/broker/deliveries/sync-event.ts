import { timestampDate } from "@bufbuild/protobuf/wkt";
import { type RecordCounts, type Run, Run_State } from "../../gen/latchkey/v1/sync_pb.ts";

/** That a sync has brought something, or has failed: the peer's fields under its names. */
export interface SyncEvent {
  readonly run: Run;
  readonly variant: string;
  readonly syncType: "full" | "incremental" | "webhook";
  /** As it is stored under the connection, and of what it is: empty when the run failed. */
  readonly model: string;
  readonly counts: Pick<RecordCounts, "added" | "updated" | "deleted"> | undefined;
  readonly provider: string;
}

/** One for each model that changed, and one for a run that failed. Of a run that changed nothing, none. */
export function syncEvents(about: Omit<SyncEvent, "model" | "counts">): SyncEvent[] {
  if (about.run.state === Run_State.FAILED) return [{ ...about, model: "", counts: undefined }];
  return Object.entries(about.run.counts)
    .filter(([, { added, updated, deleted }]) => added + updated + deleted > 0n)
    .map(([model, counts]) => ({ ...about, model, counts }));
}

export function syncEventBody({ run, variant, syncType, model, counts, provider }: SyncEvent): Uint8Array {
  const { connection, script, startedAt, problem, id } = run;
  const began = startedAt === undefined ? undefined : timestampDate(startedAt).toISOString();
  return Buffer.from(
    JSON.stringify({
      from: "latchkey",
      type: "sync",
      connectionId: connection?.id,
      providerConfigKey: connection?.integration,
      provider,
      environment: connection?.environment,
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
            // What changed since then is what the run has brought.
            modifiedAfter: began,
          }),
    }),
  );
}
