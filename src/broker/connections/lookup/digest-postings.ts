import { randomBytes } from "node:crypto";
import { createRowBuckets } from "./row-buckets.ts";
import { createWordRows } from "./word-rows.ts";

/**
 * Postings of digests, numbered from 1: a posting is one digest of an owner. Comparisons are against a selected digest,
 * held as words, because a closure for each search would be garbage.
 */
export interface DigestPostings {
  /** Selects the digest that begins at this byte. */
  select(digests: Uint8Array, at: number): void;
  isSelected(posting: number): boolean;
  /** Whether the posting's digest sorts before the selected one. */
  isBefore(posting: number): boolean;
  /** Adds a posting of the selected digest. */
  add(owner: number): number;
  remove(posting: number): void;
  /** Selects a digest of one character a byte, and returns its first posting; 0: there is none. */
  first(digest: string): number;
  /** Returns the next posting of the selected digest; 0: there is none. */
  next(posting: number): number;
  ownerOf(posting: number): number;
  /** Returns the owner's next posting, by digest; 0: there is none. */
  nextOfOwner(posting: number): number;
  setNextOfOwner(posting: number, next: number): void;
  readonly count: number;
  readonly bytes: number;
}

export const digestBytes = 16;

// Word offsets of a posting. An owner's postings form a list sorted by digest, so that an update compares old and new
// in one pass. The postings of a bucket, and so of a digest, form another list.
const digestWord = 0;
const ownerWord = 4;
const nextOfOwnerWord = 5;
const nextWord = 6;
const previousWord = 7;

export function createDigestPostings(): DigestPostings {
  const rows = createWordRows(8);
  const mix = createDigestMix();
  const byDigest = createRowBuckets({
    rows,
    next: nextWord,
    previous: previousWord,
    hashOf: (posting) =>
      mix(
        rows.get(posting, digestWord),
        rows.get(posting, digestWord + 1),
        rows.get(posting, digestWord + 2),
        rows.get(posting, digestWord + 3),
      ),
  });

  // The selected digest.
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;

  const isSelected = (posting: number): boolean =>
    rows.get(posting, digestWord) === a &&
    rows.get(posting, digestWord + 1) === b &&
    rows.get(posting, digestWord + 2) === c &&
    rows.get(posting, digestWord + 3) === d;

  function selectedFrom(start: number): number {
    let posting = start;
    while (posting !== 0 && !isSelected(posting)) posting = rows.get(posting, nextWord);
    return posting;
  }

  return {
    select(digests, at) {
      a = wordAt(digests, at);
      b = wordAt(digests, at + 4);
      c = wordAt(digests, at + 8);
      d = wordAt(digests, at + 12);
    },
    isSelected,
    isBefore(posting) {
      const first = rows.get(posting, digestWord) - a;
      if (first !== 0) return first < 0;
      const second = rows.get(posting, digestWord + 1) - b;
      if (second !== 0) return second < 0;
      const third = rows.get(posting, digestWord + 2) - c;
      if (third !== 0) return third < 0;
      return rows.get(posting, digestWord + 3) < d;
    },
    add(owner) {
      const posting = rows.take();
      rows.set(posting, digestWord, a);
      rows.set(posting, digestWord + 1, b);
      rows.set(posting, digestWord + 2, c);
      rows.set(posting, digestWord + 3, d);
      rows.set(posting, ownerWord, owner);
      byDigest.add(posting);
      return posting;
    },
    remove(posting) {
      byDigest.remove(posting);
      rows.give(posting);
    },
    first(digest) {
      a = wordOf(digest, 0);
      b = wordOf(digest, 4);
      c = wordOf(digest, 8);
      d = wordOf(digest, 12);
      return selectedFrom(byDigest.first(mix(a, b, c, d)));
    },
    next: (posting) => selectedFrom(rows.get(posting, nextWord)),
    ownerOf: (posting) => rows.get(posting, ownerWord),
    nextOfOwner: (posting) => rows.get(posting, nextOfOwnerWord),
    setNextOfOwner: (posting, next) => rows.set(posting, nextOfOwnerWord, next),
    get count() {
      return rows.count;
    },
    get bytes() {
      return rows.bytes + byDigest.bytes;
    },
  };
}

/**
 * Hashes four words like MurmurHash3. Digests are random already; the random seeds only hide the bucket from outsiders,
 * who could choose values of one bucket.
 */
function createDigestMix(): (first: number, second: number, third: number, fourth: number) => number {
  const seeds = new Uint32Array(randomBytes(digestBytes).buffer.slice(0, digestBytes));
  return (first, second, third, fourth) => {
    let mix = Math.imul(first ^ (seeds[0] ?? 0), 0xcc9e2d51);
    mix = Math.imul(mix ^ (mix >>> 15) ^ second ^ (seeds[1] ?? 0), 0x1b873593);
    mix = Math.imul(mix ^ (mix >>> 13) ^ third ^ (seeds[2] ?? 0), 0x85ebca6b);
    mix = Math.imul(mix ^ (mix >>> 16) ^ fourth ^ (seeds[3] ?? 0), 0xc2b2ae35);
    return (mix ^ (mix >>> 16)) >>> 0;
  };
}

/** Big-endian, so that words sort like the bytes. */
const wordAt = (bytes: Uint8Array, at: number): number =>
  (((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0)) >>> 0;

const wordOf = (text: string, at: number): number =>
  ((text.charCodeAt(at) << 24) |
    (text.charCodeAt(at + 1) << 16) |
    (text.charCodeAt(at + 2) << 8) |
    text.charCodeAt(at + 3)) >>>
  0;
