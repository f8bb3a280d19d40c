import { create, fromBinary, type JsonObject } from "@bufbuild/protobuf";
import { bytesFor } from "../../base/message-bytes.ts";
import type { World } from "../../base/world.ts";
import {
  mergedRecord,
  type NewRecord,
  newRecords,
  type RecordAction,
  recordIds,
  recordPatches,
  saved,
} from "../../core/scripts/record-change.ts";
import { type RecordPlace, type StoredRecord, StoredRecordSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after } from "../../store/keys.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { type RecordCollections, recordKey, recordSequence, recordsUnder } from "./record-collections.ts";
import {
  createRecordCommits,
  dropped,
  type RecordCommitContext,
  type RecordMove,
  type RecordsOf,
  type RecordWriteOptions,
  requireNames,
  variantOf,
} from "./record-commits.ts";
import { recordCursors } from "./record-cursor.ts";
import { createDeleteDetection, type DeleteDetection } from "./record-deletion.ts";
import { createRecordDigests } from "./record-digests.ts";
import {
  createRecordList,
  type ListedRecord,
  type RecordFilter,
  type RecordPage,
  type RecordReading,
} from "./record-list.ts";

/**
 * Records that syncs save for a connection, by named model, in the order of their changes. A changed record moves to
 * the end, so a reader finds all later changes after its own position.
 */
export interface SyncRecords {
  /** Saves records; unchanged ones are not written. Large batches take several commits, each atomic. */
  save(of: RecordsOf, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Merges into existing records; missing and deleted ones are skipped. */
  update(of: RecordsOf, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Deletes by ID, or by records with an ID. Their last data stays readable until they are removed. */
  delete(of: RecordsOf, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Notes that a run has used this model, with or without changes. Records that no run uses are removed eventually. */
  touch(of: RecordsOf, writing?: RecordWriteOptions): Promise<void>;
  /** Drops all records, as if none had ever existed. */
  drop(of: RecordsOf, writing?: RecordWriteOptions): Promise<void>;
  /** Starts delete detection for one full run; call before its first record. */
  detectDeletes(of: RecordsOf, writing?: RecordWriteOptions): Promise<DeleteDetection>;
  /** Returns the data of records by ID as text; deleted and pruned records have none. */
  getByIds(of: RecordsOf, ids: readonly unknown[]): Promise<ReadonlyMap<string, JsonObject>>;
  list(of: RecordsOf, filter: RecordFilter): Promise<RecordPage>;
  /** Empties records up to a cursor, oldest first, and keeps a trace of each. */
  prune(of: RecordsOf, asked: Prune, writing?: RecordWriteOptions): Promise<PruneResult>;
  /** Returns the counts by model and variant. */
  counts(connection: ConnectionRef): Promise<readonly ModelCount[]>;
}

export interface SaveCounts {
  readonly added: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

export interface ModelCount {
  readonly model: string;
  readonly variant: string;
  readonly count: number;
  readonly changedMs: number;
}

export interface Prune {
  /** The cursor of the last record to prune. */
  readonly until: string;
  readonly limit: number;
}

export interface PruneResult {
  readonly count: number;
  readonly hasMore: boolean;
}

export type { DeleteDetection, ListedRecord, RecordFilter, RecordPage, RecordsOf, RecordWriteOptions };

interface SyncRecordsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & RecordCollections;
  readonly connections: Pick<Connections, "get">;
  readonly world: World;
}

/** Limits one commit, and so how long other commits wait for it. */
const maxRecordsPerCommit = 1_000;
const maxBytesPerCommit = 2 * 1024 * 1024;
const nothing: SaveCounts = { added: 0, updated: 0, deleted: 0, unchanged: 0 };

export function createSyncRecords({ store, collections, connections, world }: SyncRecordsOptions): SyncRecords {
  const { recordModels } = collections;
  const digestsOf = createRecordDigests(store);
  const { commit } = createRecordCommits({ store, collections, connections, digests: digestsOf, world });

  async function recordsAt(space: string, sequences: readonly bigint[]): Promise<readonly StoredRecord[]> {
    const found = await store.getMany(sequences.map((sequence) => recordKey(space, sequence)));
    return found.map((entry) =>
      entry === undefined ? create(StoredRecordSchema) : fromBinary(StoredRecordSchema, entry.value),
    );
  }

  /** Returns the existing records that are not deleted, with their data. */
  async function thereOf(
    { model, placesOf }: RecordCommitContext,
    digests: readonly Buffer[],
  ): Promise<readonly PresentRecord[]> {
    const places = await placesOf(digests);
    const there = digests.flatMap((digest, i) => {
      const before = places[i];
      return before === undefined || before.deletedMs > 0 ? [] : [{ digest, before }];
    });
    const records = await recordsAt(
      model.space,
      there.map(({ before }) => before.sequence),
    );
    return there.map((one, i) => ({ ...one, record: records[i] ?? create(StoredRecordSchema) }));
  }

  async function saveSome(ground: RecordCommitContext, records: readonly NewRecord[]) {
    const { digests, model, placesOf } = ground;
    const found = records.map(({ id }) => digests.of(model, id));
    const places = await placesOf(found);
    const moves = records.flatMap(({ id, data, dataHash }, i): RecordMove[] => {
      const [digest, before] = [found[i], places[i]];
      const action = saved(before, { dataHash });
      return action === undefined || digest === undefined ? [] : [{ digest, id, before, action, data, dataHash }];
    });
    return { moves, result: counted(moves, records.length) };
  }

  async function updateSome(ground: RecordCommitContext, patches: ReturnType<typeof recordPatches>) {
    const { digests, model } = ground;
    const patchOf = new Map(patches.map(({ id, patch }) => [id, patch]));
    const there = await thereOf(
      ground,
      patches.map(({ id }) => digests.of(model, id)),
    );
    const moves = there.flatMap(({ digest, before, record: { id, data: old } }): RecordMove[] => {
      const { data, dataHash } = mergedRecord(id, old, patchOf.get(id) ?? {});
      const action = saved(before, { dataHash });
      return action === undefined ? [] : [{ id, digest, before, action, data, dataHash }];
    });
    return { moves, result: counted(moves, there.length) };
  }

  async function deletionsAt(ground: RecordCommitContext, digests: readonly Buffer[]): Promise<readonly RecordMove[]> {
    return (await thereOf(ground, digests)).map(({ digest, before, record: { id, data, prunedMs } }) => {
      return { digest, before, id, data, prunedMs, dataHash: before.dataHash, action: "DELETED" };
    });
  }

  async function deleteSome(ground: RecordCommitContext, ids: readonly string[]) {
    const { digests, model } = ground;
    const moves = await deletionsAt(
      ground,
      ids.map((id) => digests.of(model, id)),
    );
    return { moves, result: counted(moves, moves.length) };
  }

  /** Commits each slice of a batch by itself. An empty batch makes one commit, which updates the last-used time. */
  async function inSlices<T>(
    {
      of,
      writing,
      items,
    }: { readonly of: RecordsOf; readonly writing: RecordWriteOptions; readonly items: readonly T[] },
    { sizeOf, some }: SliceOptions<T>,
  ): Promise<SaveCounts> {
    let sum = nothing;
    for (const slice of slices(items, sizeOf)) {
      sum = added(sum, await commit(of, writing, (ground) => some(ground, slice)));
    }
    return sum;
  }

  async function read(of: RecordsOf): Promise<RecordReading> {
    requireNames(of);
    const { connection, model } = of;
    const variant = variantOf(of.variant);
    const { number } = (await connections.get(connection)).value;
    const named = { ...connection, connectionId: connection.id, model, variant };
    const cursors = recordCursors(named, number);
    return { cursors, model: (await recordModels.get(String(number), model, variant))?.value };
  }
  const list = createRecordList({ store, digests: digestsOf });

  /** Prunes in one commit, at most `limit` records; records up to `prunedTo` were pruned before. */
  async function pruneSome({ model, nowMs }: RecordCommitContext, until: bigint, limit: number) {
    const { space, prunedTo } = model;
    const { to } = recordsUnder(space);
    const from = after(recordKey(space, prunedTo));
    const last = until < model.sequence ? until : model.sequence;
    const end = last === model.sequence ? to : after(recordKey(space, last));
    const found = from < end ? await store.list({ from, to: end, limit: limit + 1 }) : [];
    const shown = found.slice(0, limit);
    const changes = shown.flatMap(({ key, value }) => {
      const record = fromBinary(StoredRecordSchema, value);
      // A record deleted after it was pruned has moved to a later position.
      if (record.prunedMs > 0) return [];
      const pruned = { ...record, data: new Uint8Array(), prunedMs: nowMs };
      return [{ key, value: bytesOfRecord(pruned), secret: true as const }];
    });
    const lastKey = shown.at(-1)?.key;
    const hasMore = found.length > limit;
    const reached = lastKey === undefined ? prunedTo : recordSequence(lastKey);
    const result: PruneResult = { count: changes.length, hasMore };
    return { changes, ...(reached > prunedTo && { model: { prunedTo: reached } }), isReaders: true as const, result };
  }

  return {
    save: async (of, records, writing = {}) =>
      inSlices({ of, writing, items: newRecords(records) }, { sizeOf: ({ data }) => data.length, some: saveSome }),
    update: async (of, records, writing = {}) =>
      inSlices({ of, writing, items: recordPatches(records) }, { sizeOf: () => assumedBytes, some: updateSome }),
    delete: async (of, records, writing = {}) =>
      inSlices({ of, writing, items: recordIds(records) }, { sizeOf: () => assumedBytes, some: deleteSome }),
    touch: (of, writing = {}) => commit(of, writing, () => ({ result: undefined })),
    drop: (of, writing = {}) => commit(of, writing, ({ model }) => ({ ...dropped(model, world), result: undefined })),
    async detectDeletes(of, writing = {}) {
      const digests = await digestsOf();
      const { value } = await connections.get(of.connection);
      const at = { ...of, connectionNumber: of.connectionNumber ?? value.number };
      const { model } = await read(at);
      const deleteAt = async (ground: RecordCommitContext, all: readonly Buffer[]) => {
        const moves = await deletionsAt(ground, all);
        return { moves, result: moves.length };
      };
      const variant = variantOf(of.variant);
      return createDeleteDetection({ store, digests, commit, deleteAt, of: at, variant, began: model, writing });
    },
    async getByIds(of, ids) {
      const { model } = await read(of);
      const found = new Map<string, JsonObject>();
      if (model === undefined) return found;
      const records = await list.byIds({ model, ids: recordIds(ids) });
      for (const { record } of records) {
        if (record.deletedMs === 0 && record.prunedMs === 0) found.set(record.id, dataIn(record));
      }
      return found;
    },
    list: async (of, filter) => list.page(await read(of), filter),
    async prune(of, { until, limit }, writing = {}) {
      const { cursors, model } = await read(of);
      const last = cursors.read(until);
      let count = 0;
      let hasMore = false;
      if (model === undefined) return { count, hasMore };
      do {
        const most = Math.min(limit - count, maxRecordsPerCommit);
        const step = await commit(of, writing, (ground) => pruneSome(ground, last, most));
        count += step.count;
        ({ hasMore } = step);
      } while (hasMore && count < limit);
      return { count, hasMore };
    },
    async counts(connection) {
      const { value } = await connections.get(connection);
      const found = await recordModels.page({ under: [String(value.number)], limit: Number.MAX_SAFE_INTEGER });
      return found.map(({ value: { model, variant, count, changedMs } }) => {
        return { model, variant, count: Number(count), changedMs };
      });
    },
  };
}

interface PresentRecord {
  readonly digest: Buffer;
  readonly before: RecordPlace;
  readonly record: StoredRecord;
}

interface SliceOptions<T> {
  readonly sizeOf: (item: T) => number;
  readonly some: (
    ground: RecordCommitContext,
    slice: readonly T[],
  ) => Promise<{ moves: readonly RecordMove[]; result: SaveCounts }>;
}

/** The size of a stored record, assumed before it is read. */
const assumedBytes = 4_096;
const bytesOfRecord = bytesFor(StoredRecordSchema);

/** Parses without checks, since `newRecords` has written these bytes. */
export const dataIn = ({ data }: Pick<StoredRecord, "data">): JsonObject =>
  data.length === 0 ? {} : (JSON.parse(Buffer.from(data).toString()) as JsonObject);

function* slices<T>(items: readonly T[], sizeOf: (item: T) => number): Generator<readonly T[]> {
  let slice: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = sizeOf(item);
    if (slice.length === maxRecordsPerCommit || (slice.length > 0 && bytes + size > maxBytesPerCommit)) {
      yield slice;
      slice = [];
      bytes = 0;
    }
    slice.push(item);
    bytes += size;
  }
  yield slice;
}

function counted(moves: readonly RecordMove[], concerned: number): SaveCounts {
  const of = (wanted: RecordAction) => moves.filter(({ action }) => action === wanted).length;
  const [added, updated, deleted] = [of("ADDED"), of("UPDATED"), of("DELETED")];
  return { added, updated, deleted, unchanged: concerned - moves.length };
}

const added = (a: SaveCounts, b: SaveCounts): SaveCounts => ({
  added: a.added + b.added,
  updated: a.updated + b.updated,
  deleted: a.deleted + b.deleted,
  unchanged: a.unchanged + b.unchanged,
});
