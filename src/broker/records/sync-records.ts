import type { JsonObject } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { newRecords, recordIds, recordPatches } from "../../core/scripts/record-change.ts";
import type { StoredRecord } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { commitBatch, type SaveCounts } from "./record-batches.ts";
import type { RecordCollections } from "./record-collections.ts";
import {
  createRecordCommits,
  dropped,
  type RecordCommitContext,
  type RecordScope,
  type RecordWriteOptions,
  requireNames,
  variantOf,
} from "./record-commits.ts";
import { recordCursors } from "./record-cursor.ts";
import { createRecordDecisions } from "./record-decisions.ts";
import { createDeleteDetection, type DeleteDetection } from "./record-deletion.ts";
import { createRecordDigests } from "./record-digests.ts";
import {
  createRecordList,
  type ListedRecord,
  type RecordFilter,
  type RecordPage,
  type RecordReading,
} from "./record-list.ts";
import { type PruneResult, pruneRecords } from "./record-pruning.ts";
import { createRecordWatch, type WatchRecords } from "./record-watch.ts";

/**
 * Records that syncs save for a connection, by named model, in the order of their changes. A changed record moves to
 * the end, so a reader finds all later changes after its own position.
 */
export interface SyncRecords {
  /** Saves records; unchanged ones are not written. Large batches take several commits, each atomic. */
  save(of: RecordScope, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Merges into existing records; missing and deleted ones are skipped. */
  update(of: RecordScope, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Deletes by ID, or by records with an ID. Their last data stays readable until they are removed. */
  delete(of: RecordScope, records: readonly unknown[], writing?: RecordWriteOptions): Promise<SaveCounts>;
  /** Notes that a run has used this model, with or without changes. Records that no run uses are removed eventually. */
  touch(of: RecordScope, writing?: RecordWriteOptions): Promise<void>;
  /** Drops all records, as if none had ever existed. */
  drop(of: RecordScope, writing?: RecordWriteOptions): Promise<void>;
  /** Starts delete detection for one full run; call before its first record. */
  detectDeletes(of: RecordScope, writing?: RecordWriteOptions): Promise<DeleteDetection>;
  /** Returns the data of records by ID as text; deleted and pruned records have none. */
  getByIds(of: RecordScope, ids: readonly unknown[]): Promise<ReadonlyMap<string, JsonObject>>;
  list(of: RecordScope, filter: RecordFilter): Promise<RecordPage>;
  /** Empties records up to a cursor, oldest first, and keeps a trace of each. */
  prune(of: RecordScope, asked: Prune, writing?: RecordWriteOptions): Promise<PruneResult>;
  readonly watch: WatchRecords;
  /** Returns the counts by model and variant. */
  counts(connection: ConnectionRef): Promise<readonly ModelCount[]>;
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

export type { DeleteDetection, ListedRecord, RecordFilter, RecordPage, RecordScope, RecordWriteOptions };

interface SyncRecordsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & RecordCollections;
  readonly connections: Pick<Connections, "get">;
  readonly world: World;
}

/** The size of a stored record, assumed before it is read. */
const assumedBytes = 4_096;

export function createSyncRecords({ store, collections, connections, world }: SyncRecordsOptions): SyncRecords {
  const { recordModels } = collections;
  const digestsOf = createRecordDigests(store);
  const commits = createRecordCommits({ store, collections, connections, digests: digestsOf, world });
  const { commit } = commits;
  const decisions = createRecordDecisions(store);
  const list = createRecordList({ store, digests: digestsOf });

  async function read(of: RecordScope): Promise<RecordReading> {
    requireNames(of);
    const { connection, model } = of;
    const variant = variantOf(of.variant);
    const { number } = (await connections.get(connection)).value;
    const named = { ...connection, connectionId: connection.id, model, variant };
    const cursors = recordCursors(named, number);
    return { cursors, model: (await recordModels.get(String(number), model, variant))?.value };
  }

  return {
    save: async (of, records, writing = {}) =>
      commitBatch(commits, {
        of,
        writing,
        items: newRecords(records),
        sizeOf: ({ data }) => data.length,
        decide: decisions.save,
      }),
    update: async (of, records, writing = {}) =>
      commitBatch(commits, {
        of,
        writing,
        items: recordPatches(records),
        sizeOf: () => assumedBytes,
        decide: decisions.update,
      }),
    delete: async (of, records, writing = {}) =>
      commitBatch(commits, {
        of,
        writing,
        items: recordIds(records),
        sizeOf: () => assumedBytes,
        decide: (context, ids) =>
          decisions.delete(
            context,
            ids.map((id) => context.digests.of(context.model, id)),
          ),
      }),
    touch: (of, writing = {}) => commit(of, writing, () => ({ result: undefined })),
    drop: (of, writing = {}) => commit(of, writing, ({ model }) => ({ ...dropped(model, world), result: undefined })),
    async detectDeletes(of, writing = {}) {
      const digests = await digestsOf();
      const { value } = await connections.get(of.connection);
      const at = { ...of, connectionNumber: of.connectionNumber ?? value.number };
      const { model } = await read(at);
      const deleteAt = async (context: RecordCommitContext, all: readonly Buffer[]) => {
        const { moves } = await decisions.delete(context, all);
        return { moves, result: moves.length };
      };
      const variant = variantOf(of.variant);
      return createDeleteDetection({ store, digests, commit, deleteAt, of: at, variant, modelAtStart: model, writing });
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
      if (model === undefined) return { count: 0, hasMore: false };
      return pruneRecords(store, commits, { of, until: last, limit, writing });
    },
    watch: createRecordWatch({ store, collections, connections, world }),
    async counts(connection) {
      const { value } = await connections.get(connection);
      const found = await recordModels.page({ under: [String(value.number)], limit: Number.MAX_SAFE_INTEGER });
      return found.map(({ value: { model, variant, count, changedMs } }) => {
        return { model, variant, count: Number(count), changedMs };
      });
    },
  };
}

/** Parses without checks, since `newRecords` has written these bytes. */
export const dataIn = ({ data }: Pick<StoredRecord, "data">): JsonObject =>
  data.length === 0 ? {} : (JSON.parse(Buffer.from(data).toString()) as JsonObject);
