import { fromBinary } from "@bufbuild/protobuf";
import { bytesFor } from "../../base/message-bytes.ts";
import { StoredRecordSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after } from "../../store/keys.ts";
import { maxRecordsPerCommit } from "./record-batches.ts";
import { recordKey, recordSequence, recordsUnder } from "./record-collections.ts";
import type {
  RecordCommitContext,
  RecordCommits,
  RecordDecision,
  RecordScope,
  RecordWriteOptions,
} from "./record-commits.ts";

export interface PruneResult {
  readonly count: number;
  readonly hasMore: boolean;
}

/** Empties records up to a sequence number, oldest first, and keeps a trace of each. */
export interface RecordPruning {
  readonly of: RecordScope;
  readonly until: bigint;
  readonly limit: number;
  readonly writing: RecordWriteOptions;
}

const bytesOfRecord = bytesFor(StoredRecordSchema);

export async function pruneRecords(
  store: Pick<Store, "list">,
  { commit }: RecordCommits,
  { of, until, limit, writing }: RecordPruning,
): Promise<PruneResult> {
  let count = 0;
  let hasMore = false;
  do {
    const most = Math.min(limit - count, maxRecordsPerCommit);
    const step = await commit(of, writing, (context) => decidePruning(store, context, { until, limit: most }));
    count += step.count;
    ({ hasMore } = step);
  } while (hasMore && count < limit);
  return { count, hasMore };
}

/** Decides one commit, of at most `limit` records; records up to `prunedTo` were pruned before. */
async function decidePruning(
  store: Pick<Store, "list">,
  { model, nowMs }: RecordCommitContext,
  { until, limit }: Pick<RecordPruning, "until" | "limit">,
): Promise<RecordDecision<PruneResult>> {
  const { space, prunedTo } = model;
  const { to } = recordsUnder(space);
  const from = after(recordKey(space, prunedTo));
  const last = until < model.sequence ? until : model.sequence;
  const end = last === model.sequence ? to : after(recordKey(space, last));
  const found = from < end ? await store.list({ from, to: end, limit: limit + 1 }) : [];
  const inReach = found.slice(0, limit);
  const changes = inReach.flatMap(({ key, value }) => {
    const record = fromBinary(StoredRecordSchema, value);
    // A record deleted after it was pruned has moved to a later position.
    if (record.prunedMs > 0) return [];
    const pruned = { ...record, data: new Uint8Array(), prunedMs: nowMs };
    return [{ key, value: bytesOfRecord(pruned), secret: true as const }];
  });
  const lastKey = inReach.at(-1)?.key;
  const reached = lastKey === undefined ? prunedTo : recordSequence(lastKey);
  const result: PruneResult = { count: changes.length, hasMore: found.length > limit };
  return { changes, ...(reached > prunedTo && { model: { prunedTo: reached } }), isReaders: true, result };
}
