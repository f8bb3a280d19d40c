import type { WordRows } from "./word-rows.ts";

/**
 * Finds rows by their hash: linear hashing (Litwin 1980), with as many buckets as rows. Grows by one bucket a row, so
 * that no insert waits for a copy of the table. Only the last chunk is ever freed.
 */
export interface RowBuckets {
  /** Returns the first row of the bucket for this hash; each row links to the next. 0: the bucket is empty. */
  first(hash: number): number;
  add(row: number): void;
  remove(row: number): void;
  readonly bytes: number;
}

interface RowBucketsOptions {
  readonly rows: WordRows;
  /** Offsets of the words that hold a row's neighbors in the bucket. */
  readonly next: number;
  readonly previous: number;
  /** Returns 32 bits, all evenly distributed. */
  readonly hashOf: (row: number) => number;
}

const chunkBits = 14;
const bucketsPerChunk = 1 << chunkBits;
const chunkMask = bucketsPerChunk - 1;
const fewest = 16;

export function createRowBuckets({ rows, next, previous, hashOf }: RowBucketsOptions): RowBuckets {
  const chunks: Uint32Array[] = [];
  let count = 0;
  let buckets = fewest;
  /** The largest power of two up to `buckets`. Buckets from there on were split off from the first ones. */
  let whole = fewest;

  function bucketOf(hash: number): number {
    const wide = hash & (whole * 2 - 1);
    return wide < buckets ? wide : hash & (whole - 1);
  }

  const headOf = (bucket: number): number => chunks[bucket >>> chunkBits]?.[bucket & chunkMask] ?? 0;
  function setHead(bucket: number, row: number): void {
    if (bucket >>> chunkBits >= chunks.length) chunks.push(new Uint32Array(bucketsPerChunk));
    const chunk = chunks[bucket >>> chunkBits];
    if (chunk !== undefined) chunk[bucket & chunkMask] = row;
  }

  function link(bucket: number, row: number): void {
    const second = headOf(bucket);
    rows.set(row, next, second);
    rows.set(row, previous, 0);
    if (second !== 0) rows.set(second, previous, row);
    setHead(bucket, row);
  }

  /** Empties a bucket and moves each row to its current bucket. */
  function refile(bucket: number): void {
    let row = headOf(bucket);
    setHead(bucket, 0);
    while (row !== 0) {
      const following = rows.get(row, next);
      link(bucketOf(hashOf(row)), row);
      row = following;
    }
  }

  function grow(): void {
    const split = buckets - whole;
    buckets += 1;
    if (buckets === whole * 2) whole = buckets;
    refile(split);
  }

  function shrink(): void {
    if (buckets === whole) whole /= 2;
    buckets -= 1;
    refile(buckets);
    if ((buckets & chunkMask) === 0) chunks.length = buckets >>> chunkBits;
  }

  return {
    first: (hash) => headOf(bucketOf(hash)),
    add(row) {
      count += 1;
      if (count > buckets) grow();
      link(bucketOf(hashOf(row)), row);
    },
    remove(row) {
      const [before, following] = [rows.get(row, previous), rows.get(row, next)];
      if (following !== 0) rows.set(following, previous, before);
      if (before === 0) setHead(bucketOf(hashOf(row)), following);
      else rows.set(before, next, following);
      count -= 1;
      // Shrinks when half empty, by two buckets for each removed row, to keep up with removals.
      for (let i = 0; i < 2 && buckets > fewest && count * 2 < buckets; i += 1) shrink();
      if (count > 0) return;
      chunks.length = 0;
      buckets = fewest;
      whole = fewest;
    },
    get bytes() {
      return chunks.length * bucketsPerChunk * 4;
    },
  };
}
