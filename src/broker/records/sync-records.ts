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
import { type Collections, recordKey, recordSequence, recordsUnder } from "../collections.ts";
import type { Connections } from "../connections/connections.ts";
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
 * What syncs save of a connection: records of named models, in the order of their changes. Each that changes moves
 * to the end, so that whoever has read up to some place finds all that changed since behind it.
 */
export interface SyncRecords {
  /** What is there already as it is, is left alone. Many are saved in several commits, each whole. */
  save(of: RecordsOf, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Merges into records that are there; what is not, or not any more, is passed over. */
  update(of: RecordsOf, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** By id, or by records with one. What they held last stays readable until they are removed. */
  delete(of: RecordsOf, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** A run has looked at this model, whether anything came of it or not: records that no run looks at are removed in the end. */
  touch(of: RecordsOf, writing?: RecordWriteOptions): Promise<void>;
  /** Drops all records, as if there had never been any. */
  drop(of: RecordsOf, writing?: RecordWriteOptions): Promise<void>;
  /** For one full run, from before its first record on. */
  detectDeletes(of: RecordsOf, writing?: RecordWriteOptions): Promise<DeleteDetection>;
  /** What records hold, by id as text; those that are deleted or pruned hold nothing. */
  getByIds(of: RecordsOf, ids: readonly unknown[]): Promise<ReadonlyMap<string, JsonObject>>;
  list(of: RecordsOf, filter: RecordFilter): Promise<RecordPage>;
  /** Empties records up to a cursor, the oldest first, and keeps that they were there. */
  prune(of: RecordsOf, asked: Prune, writing?: RecordWriteOptions): Promise<PruneResult>;
  /** By model and variant. */
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
  /** Up to and with the record of this cursor. */
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
  readonly collections: Collections;
  readonly connections: Pick<Connections, "get">;
  readonly world: World;
}

/** Of one commit: what waits behind it waits no longer than it takes to write so much. */
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

  /** Those that are there and not deleted, with what they hold. */
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

  /** Each slice of a batch in a commit of its own; of an empty one, one that says that somebody was here. */
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

  /** One commit of at most so many; what is before `prunedTo` was pruned before. */
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
      // One that was deleted since it was pruned has moved.
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

/** Of a record that is there, before it was read. */
const assumedBytes = 4_096;
const bytesOfRecord = bytesFor(StoredRecordSchema);

/** Our own bytes: `newRecords` has written them. */
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
