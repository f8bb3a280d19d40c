import { fromBinary } from "@bufbuild/protobuf";
import type { RecordAction } from "../../core/scripts/record-change.ts";
import { type RecordModel, type StoredRecord, StoredRecordSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Entry, Store } from "../../store/contract.ts";
import { after } from "../../store/keys.ts";
import { droppedSpaceKey, recordKey, recordPlaceKey, recordSequence, recordsUnder } from "./record-collections.ts";
import { placeIn } from "./record-commits.ts";
import type { RecordCursors } from "./record-cursor.ts";
import { digestText, type RecordDigests } from "./record-digests.ts";

export interface RecordFilter {
  /** The cursor of the last record read; empty: from the beginning. */
  readonly cursor: string;
  readonly limit: number;
  /** Filters by last action; none: all. */
  readonly actions: readonly RecordAction[];
  /** Filters by changes after this time, in milliseconds since 1970. */
  readonly modifiedAfterMs: number | undefined;
  /** Filters by ID; none: all. */
  readonly ids: readonly string[];
  /** Maximum size of a page, which holds at least one record. */
  readonly maxBytes: number;
}

/** A record and its position. */
export interface ListedRecord {
  readonly record: StoredRecord;
  /** The cursor to continue after this record. */
  readonly cursor: string;
}

export interface RecordPage {
  readonly records: readonly ListedRecord[];
  /** Empty at the end. */
  readonly next: string;
}

/** The model to read, and the format of its cursors. */
export interface RecordReading {
  readonly cursors: RecordCursors;
  /** Undefined: no records were ever saved. */
  readonly model: RecordModel | undefined;
}

interface SequencedRecord {
  readonly record: StoredRecord;
  readonly sequence: bigint;
}

interface ListOptions {
  readonly store: Store;
  readonly digests: () => Promise<RecordDigests>;
}

const chunkSize = 500;
/** Limits the records examined by one call, which then returns its results with a cursor to continue. */
const maxExaminedPerCall = 20_000;

export function createRecordList({ store, digests }: ListOptions) {
  const readFrom = (space: string, sequence: bigint, limit: number): Promise<readonly Entry[]> => {
    const { to } = recordsUnder(space);
    return store.list({ from: after(recordKey(space, sequence)), to, limit });
  };

  /**
   * Returns the sequence number after which all changes are later than the time; sequences and times have the same
   * order.
   */
  async function lastUntil({ space, sequence }: RecordModel, ms: number): Promise<bigint> {
    let [low, high] = [0n, sequence];
    while (low < high) {
      const middle = (low + high) / 2n;
      const [entry] = await readFrom(space, middle, 1);
      if (entry !== undefined && placed(entry).record.lastModifiedMs <= ms) low = recordSequence(entry.key);
      else high = middle;
    }
    return low;
  }

  /** Returns the records in the order of their changes. */
  async function byIds({ model, ids }: RecordIdQuery): Promise<readonly SequencedRecord[]> {
    const digest = await digests();
    const keys = [...new Set(ids)].map((id) => recordPlaceKey(model.space, digestText(digest.of(model, id))));
    // A record may move between the two reads; then read again.
    for (;;) {
      const places = (await store.getMany(keys)).filter((entry) => entry !== undefined);
      const sequences = places.map((entry) => placeIn(entry).sequence).sort((a, b) => (a < b ? -1 : 1));
      const found = await store.getMany(sequences.map((sequence) => recordKey(model.space, sequence)));
      const there = found.filter((entry) => entry !== undefined);
      if (there.length === found.length || (await isDropped(model))) return there.map(placed);
    }
  }

  /** Whether all records are being removed: then missing ones need no further search. */
  async function isDropped({ space }: RecordModel): Promise<boolean> {
    return (await store.get(droppedSpaceKey(space))) !== undefined;
  }

  async function page({ cursors, model }: RecordReading, filter: RecordFilter): Promise<RecordPage> {
    const { limit, actions, modifiedAfterMs, ids, maxBytes } = filter;
    let at = cursors.read(filter.cursor);
    if (model === undefined) return { records: [], next: "" };
    if (modifiedAfterMs !== undefined) {
      const start = await lastUntil(model, modifiedAfterMs);
      if (start > at) at = start;
    }
    const records: ListedRecord[] = [];
    let room = maxBytes;

    /** Returns false if there was no room for the record. */
    function take({ record, sequence }: SequencedRecord): boolean {
      const isWanted = actions.length === 0 || actions.some((action) => action === record.lastAction);
      if (isWanted) {
        room -= record.data.length + metadataBytes;
        if (records.length === limit || (room < 0 && records.length > 0)) return false;
        records.push({ record, cursor: cursors.write(sequence) });
      }
      at = sequence;
      return true;
    }
    // The cursor of the last record examined, wanted or not.
    const toBeContinued = () => ({ records, next: cursors.write(at) });

    if (ids.length > 0) {
      const start = at;
      const found = (await byIds({ model, ids })).filter(({ sequence }) => sequence > start);
      return found.every(take) ? { records, next: "" } : toBeContinued();
    }
    for (let unseen = maxExaminedPerCall; unseen > 0; ) {
      // The extra record shows whether there is another page.
      const size = Math.min(chunkSize, actions.length === 0 ? limit + 1 - records.length : chunkSize);
      const chunk = await readFrom(model.space, at, size);
      if (!chunk.every((entry) => take(placed(entry)))) return toBeContinued();
      if (chunk.length < size) return { records, next: "" };
      unseen -= chunk.length;
    }
    return toBeContinued();
  }

  return { page, byIds };
}

interface RecordIdQuery {
  readonly model: RecordModel;
  readonly ids: readonly string[];
}

/** The size of a record's metadata in a response. */
const metadataBytes = 250;

const placed = ({ key, value }: Entry): SequencedRecord => ({
  record: fromBinary(StoredRecordSchema, value),
  sequence: recordSequence(key),
});
