import type { RecordAction } from "../../core/scripts/record-change.ts";
import type { RecordCommitContext, RecordCommits, RecordScope, RecordWriteOptions } from "./record-commits.ts";
import type { RecordMoves } from "./record-decisions.ts";

/** Counts of the records that a batch changed, and left as they were. */
export interface SaveCounts {
  readonly added: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

/** A batch of records, and how to decide what becomes of a slice of it. */
export interface RecordBatch<T> {
  readonly of: RecordScope;
  readonly writing: RecordWriteOptions;
  readonly items: readonly T[];
  readonly sizeOf: (item: T) => number;
  readonly decide: (context: RecordCommitContext, slice: readonly T[]) => Promise<RecordMoves>;
}

/** Limits one commit, and so how long other commits wait for it. */
export const maxRecordsPerCommit = 1_000;
const maxBytesPerCommit = 2 * 1024 * 1024;
const noChanges: SaveCounts = { added: 0, updated: 0, deleted: 0, unchanged: 0 };

/** Commits each slice of a batch by itself. An empty batch makes one commit, which updates the last-used time. */
export async function commitBatch<T>(
  { commit }: RecordCommits,
  { of, writing, items, sizeOf, decide }: RecordBatch<T>,
): Promise<SaveCounts> {
  let sum = noChanges;
  for (const slice of slices(items, sizeOf)) {
    const counts = await commit(of, writing, async (context) => {
      const { moves, considered } = await decide(context, slice);
      return { moves, result: countsOf(moves, considered) };
    });
    sum = added(sum, counts);
  }
  return sum;
}

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

function countsOf(moves: RecordMoves["moves"], considered: number): SaveCounts {
  const count = (wanted: RecordAction) => moves.filter(({ action }) => action === wanted).length;
  return {
    added: count("ADDED"),
    updated: count("UPDATED"),
    deleted: count("DELETED"),
    unchanged: considered - moves.length,
  };
}

const added = (a: SaveCounts, b: SaveCounts): SaveCounts => ({
  added: a.added + b.added,
  updated: a.updated + b.updated,
  deleted: a.deleted + b.deleted,
  unchanged: a.unchanged + b.unchanged,
});
