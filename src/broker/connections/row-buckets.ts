import type { WordRows } from "./word-rows.ts";

/**
 * Rows, found again by a hash of theirs: linear hashing (Litwin 1980), with as many buckets as rows. It grows by one
 * bucket a row, so that no row waits for a table to be copied, and nothing is ever thrown away but the last chunk.
 */
export interface RowBuckets {
  /** The first of the bucket in which rows of this hash are; the rest by the row's own word. 0: there are none. */
  first(hash: number): number;
  add(row: number): void;
  remove(row: number): void;
  readonly bytes: number;
}

interface RowBucketsOptions {
  readonly rows: WordRows;
  /** The words in which each row names its neighbours in the bucket. */
  readonly next: number;
  readonly previous: number;
  /** 32 bits, all of them as good as random. */
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
  /** The power of two that `buckets` has reached: those from there on were split off from the ones at the beginning. */
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

  /** Sets free what is in a bucket, and files each where it belongs now. */
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
      // Half empty: two for each that goes, so that it keeps up.
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
