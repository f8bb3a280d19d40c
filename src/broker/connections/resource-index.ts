import { hash, randomBytes } from "node:crypto";
import { createIdArena } from "./id-arena.ts";
import { createRowBuckets } from "./row-buckets.ts";
import { uuidOf, uuidWords } from "./uuid-words.ts";
import { createWordRows } from "./word-rows.ts";

/**
 * Index from digests to connections, for a million connections or more. Uses typed arrays and no objects: a Map of
 * strings would take three times the memory. Changes apply at once, one owner at a time.
 */
export interface ResourceIndex {
  /** Indexes the owner by exactly these digests, which are sorted and concatenated. */
  put(owner: Owner, digests: Uint8Array): void;
  remove(owner: Owner): void;
  /** Returns the owners indexed by the digest, in no order. The digest has one character a byte. */
  match(digest: string): readonly Owner[];
  /** The number of digests, counted once for each owner. */
  readonly entries: number;
  readonly owners: number;
  readonly bytes: number;
}

/** A connection. */
export interface Owner {
  readonly environment: string;
  readonly integration: string;
  readonly id: string;
}

export const digestBytes = 16;

// Word offsets of a posting, which is one digest of an owner. An owner's postings form a list sorted by digest, so that
// an update compares old and new in one pass. The postings of a bucket, and so of a digest, form another list.
const digestWord = 0;
const ownerWord = 4;
const nextOfOwner = 5;
const nextPosting = 6;
const previousPosting = 7;

// Word offsets of an owner. Nearly all IDs are UUIDs: four words hold the ID itself, so reading needs no other lookup.
// Otherwise the first of these words is the position of the ID's text.
const hashWord = 0;
const placeWord = 1;
const firstPosting = 2;
const nextOwner = 3;
const previousOwner = 4;
const idWord = 5;
/** Flag in the integration's word: the ID is stored as text. */
const textBit = 0x80000000;

/** An integration, named once for all of its connections. */
interface IndexedIntegration {
  readonly environment: string;
  readonly integration: string;
  owners: number;
}

/** Rough size of an object, two names and an entry of a Map. */
const placeBytes = 250;

export function createResourceIndex(): ResourceIndex {
  const postings = createWordRows(8);
  const owners = createWordRows(9);
  const ids = createIdArena();
  const places: (IndexedIntegration | undefined)[] = [];
  const placeNumbers = new Map<string, number>();
  // Random seeds: nobody who chooses values or IDs can choose their buckets.
  const seeds = new Uint32Array(randomBytes(digestBytes).buffer.slice(0, digestBytes));
  const secret = randomBytes(16).toString("latin1");
  const byDigest = createRowBuckets({
    rows: postings,
    next: nextPosting,
    previous: previousPosting,
    hashOf: (posting) =>
      mixed(
        postings.get(posting, digestWord),
        postings.get(posting, digestWord + 1),
        postings.get(posting, digestWord + 2),
        postings.get(posting, digestWord + 3),
      ),
  });
  const byName = createRowBuckets({
    rows: owners,
    next: nextOwner,
    previous: previousOwner,
    hashOf: (owner) => owners.get(owner, hashWord),
  });

  // The searched digest as words: a closure for each search would be garbage.
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;

  function look(digests: Uint8Array, at: number): void {
    a = wordAt(digests, at);
    b = wordAt(digests, at + 4);
    c = wordAt(digests, at + 8);
    d = wordAt(digests, at + 12);
  }

  const isLookedFor = (posting: number): boolean =>
    postings.get(posting, digestWord) === a &&
    postings.get(posting, digestWord + 1) === b &&
    postings.get(posting, digestWord + 2) === c &&
    postings.get(posting, digestWord + 3) === d;

  /** Whether a posting's digest sorts before the searched one. */
  function isBefore(posting: number): boolean {
    const first = postings.get(posting, digestWord) - a;
    if (first !== 0) return first < 0;
    const second = postings.get(posting, digestWord + 1) - b;
    if (second !== 0) return second < 0;
    const third = postings.get(posting, digestWord + 2) - c;
    if (third !== 0) return third < 0;
    return postings.get(posting, digestWord + 3) < d;
  }

  /** A mix like MurmurHash3. Digests are random already; the seeded mix only hides the bucket from outsiders. */
  function mixed(first: number, second: number, third: number, fourth: number): number {
    let mix = Math.imul(first ^ (seeds[0] ?? 0), 0xcc9e2d51);
    mix = Math.imul(mix ^ (mix >>> 15) ^ second ^ (seeds[1] ?? 0), 0x1b873593);
    mix = Math.imul(mix ^ (mix >>> 13) ^ third ^ (seeds[2] ?? 0), 0x85ebca6b);
    mix = Math.imul(mix ^ (mix >>> 16) ^ fourth ^ (seeds[3] ?? 0), 0xc2b2ae35);
    return (mix ^ (mix >>> 16)) >>> 0;
  }

  /** Adds a posting of the searched digest for an owner. */
  function file(owner: number): number {
    const posting = postings.take();
    postings.set(posting, digestWord, a);
    postings.set(posting, digestWord + 1, b);
    postings.set(posting, digestWord + 2, c);
    postings.set(posting, digestWord + 3, d);
    postings.set(posting, ownerWord, owner);
    byDigest.add(posting);
    return posting;
  }

  function unfile(posting: number): void {
    byDigest.remove(posting);
    postings.give(posting);
  }

  const placeKey = ({ environment, integration }: Pick<Owner, "environment" | "integration">) =>
    `${environment}\0${integration}`;
  const hashOf = (owner: Owner): number =>
    Number.parseInt(hash("sha256", `${secret}${placeKey(owner)}\0${owner.id}`).slice(0, 8), 16);

  const placeAt = (number: number): number => owners.get(number, placeWord) & ~textBit;
  const hasText = (number: number): boolean => (owners.get(number, placeWord) & textBit) !== 0;

  function idAt(number: number): string {
    const first = owners.get(number, idWord);
    if (hasText(number)) return ids.get(first);
    const [second, third] = [owners.get(number, idWord + 1), owners.get(number, idWord + 2)];
    return uuidOf(first, second, third, owners.get(number, idWord + 3));
  }

  function numberOf(owner: Owner, hashed: number): number {
    const place = placeNumbers.get(placeKey(owner));
    if (place === undefined) return 0;
    const isIt = (number: number) =>
      owners.get(number, hashWord) === hashed && placeAt(number) === place && idAt(number) === owner.id;
    let number = byName.first(hashed);
    while (number !== 0 && !isIt(number)) number = owners.get(number, nextOwner);
    return number;
  }

  function placeOf({ environment, integration }: Owner): number {
    const key = placeKey({ environment, integration });
    const known = placeNumbers.get(key);
    if (known !== undefined) return known;
    const free = places.indexOf(undefined);
    const number = free === -1 ? places.length : free;
    places[number] = { environment, integration, owners: 0 };
    placeNumbers.set(key, number);
    return number;
  }

  function newOwner(owner: Owner, hashed: number): number {
    const uuid = uuidWords(owner.id);
    const words = uuid ?? [ids.put(owner.id)];
    const place = placeOf(owner);
    const number = owners.take();
    owners.set(number, hashWord, hashed);
    owners.set(number, placeWord, uuid === undefined ? place | textBit : place);
    for (const [i, word] of words.entries()) owners.set(number, idWord + i, word);
    const there = places[place];
    if (there !== undefined) there.owners += 1;
    byName.add(number);
    return number;
  }

  function forget(number: number): void {
    const place = placeAt(number);
    byName.remove(number);
    if (hasText(number)) ids.free(owners.get(number, idWord));
    owners.give(number);
    const there = places[place];
    if (there === undefined) throw new Error("every owner has a place");
    there.owners -= 1;
    if (there.owners > 0) return;
    placeNumbers.delete(placeKey(there));
    places[place] = undefined;
    if (placeNumbers.size === 0) places.length = 0;
  }

  function put(owner: Owner, digests: Uint8Array): void {
    const hashed = hashOf(owner);
    let number = numberOf(owner, hashed);
    if (number === 0 && digests.length < digestBytes) return;
    if (number === 0) number = newOwner(owner, hashed);
    /** The last posting that remains, and the one after. */
    let last = 0;
    let at = owners.get(number, firstPosting);
    const join = (posting: number) =>
      last === 0 ? owners.set(number, firstPosting, posting) : postings.set(last, nextOfOwner, posting);
    const drop = () => {
      const gone = at;
      at = postings.get(gone, nextOfOwner);
      unfile(gone);
    };
    for (let offset = 0; offset + digestBytes <= digests.length; offset += digestBytes) {
      look(digests, offset);
      while (at !== 0 && isBefore(at)) drop();
      if (at !== 0 && isLookedFor(at)) {
        join(at);
        last = at;
        at = postings.get(at, nextOfOwner);
      } else {
        const posting = file(number);
        join(posting);
        last = posting;
      }
    }
    while (at !== 0) drop();
    if (last === 0) forget(number);
    else postings.set(last, nextOfOwner, 0);
  }

  return {
    put,
    remove: (owner) => put(owner, new Uint8Array()),
    match(digest) {
      a = wordOf(digest, 0);
      b = wordOf(digest, 4);
      c = wordOf(digest, 8);
      d = wordOf(digest, 12);
      const found: Owner[] = [];
      let next = byDigest.first(mixed(a, b, c, d));
      while (next !== 0) {
        const posting = next;
        next = postings.get(posting, nextPosting);
        if (!isLookedFor(posting)) continue;
        const owner = postings.get(posting, ownerWord);
        const place = places[placeAt(owner)];
        if (place === undefined) throw new Error("every owner has a place");
        const { environment, integration } = place;
        found.push({ environment, integration, id: idAt(owner) });
      }
      return found;
    },
    get entries() {
      return postings.count;
    },
    get owners() {
      return owners.count;
    },
    get bytes() {
      return postings.bytes + owners.bytes + ids.bytes + byDigest.bytes + byName.bytes + places.length * placeBytes;
    },
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
