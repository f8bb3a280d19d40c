import { hash, randomBytes } from "node:crypto";
import { type IntegrationName, integrationKey } from "../integration-name.ts";
import { createIdArena } from "./id-arena.ts";
import { createIndexedIntegrations } from "./indexed-integrations.ts";
import { createRowBuckets } from "./row-buckets.ts";
import { uuidOf, uuidWords } from "./uuid-words.ts";
import { createWordRows } from "./word-rows.ts";

/** A connection. */
export interface Owner extends IntegrationName {
  readonly id: string;
}

/** The connections of the index, numbered from 1, each with the first of its postings. */
export interface IndexedOwners {
  hashOf(owner: Owner): number;
  /** Returns the owner's number; 0 if the index does not hold the owner. */
  find(owner: Owner, hashed: number): number;
  add(owner: Owner, hashed: number): number;
  remove(number: number): void;
  get(number: number): Owner;
  /** Returns 0 if the owner has no posting yet. */
  firstPosting(number: number): number;
  setFirstPosting(number: number, posting: number): void;
  readonly count: number;
  readonly bytes: number;
}

// Word offsets of an owner. Nearly all IDs are UUIDs: four words hold the ID itself, so reading needs no other lookup.
// Otherwise the first of these words is the position of the ID's text.
const hashWord = 0;
const integrationWord = 1;
const postingWord = 2;
const nextOwner = 3;
const previousOwner = 4;
const idWord = 5;
/** Flag in the integration's word: the ID is stored as text. */
const textBit = 0x80000000;

export function createIndexedOwners(): IndexedOwners {
  const rows = createWordRows(9);
  const ids = createIdArena();
  const integrations = createIndexedIntegrations();
  // A random secret: callers that choose IDs cannot choose their buckets.
  const secret = randomBytes(16).toString("latin1");
  const byName = createRowBuckets({
    rows,
    next: nextOwner,
    previous: previousOwner,
    hashOf: (number) => rows.get(number, hashWord),
  });

  const integrationOf = (number: number): number => rows.get(number, integrationWord) & ~textBit;
  const hasText = (number: number): boolean => (rows.get(number, integrationWord) & textBit) !== 0;

  function idOf(number: number): string {
    const first = rows.get(number, idWord);
    if (hasText(number)) return ids.get(first);
    const [second, third] = [rows.get(number, idWord + 1), rows.get(number, idWord + 2)];
    return uuidOf(first, second, third, rows.get(number, idWord + 3));
  }

  return {
    hashOf: (owner) =>
      Number.parseInt(hash("sha256", `${secret}${integrationKey(owner)}\0${owner.id}`).slice(0, 8), 16),
    find(owner, hashed) {
      const integration = integrations.find(owner);
      if (integration === undefined) return 0;
      const isEqual = (number: number) =>
        rows.get(number, hashWord) === hashed && integrationOf(number) === integration && idOf(number) === owner.id;
      let number = byName.first(hashed);
      while (number !== 0 && !isEqual(number)) number = rows.get(number, nextOwner);
      return number;
    },
    add(owner, hashed) {
      const uuid = uuidWords(owner.id);
      const words = uuid ?? [ids.put(owner.id)];
      const integration = integrations.add(owner);
      const number = rows.take();
      rows.set(number, hashWord, hashed);
      rows.set(number, integrationWord, uuid === undefined ? integration | textBit : integration);
      for (const [i, word] of words.entries()) rows.set(number, idWord + i, word);
      byName.add(number);
      return number;
    },
    remove(number) {
      const integration = integrationOf(number);
      byName.remove(number);
      if (hasText(number)) ids.free(rows.get(number, idWord));
      rows.give(number);
      integrations.remove(integration);
    },
    get(number) {
      const { environment, integration } = integrations.get(integrationOf(number));
      return { environment, integration, id: idOf(number) };
    },
    firstPosting: (number) => rows.get(number, postingWord),
    setFirstPosting: (number, posting) => rows.set(number, postingWord, posting),
    get count() {
      return rows.count;
    },
    get bytes() {
      return rows.bytes + ids.bytes + byName.bytes + integrations.bytes;
    },
  };
}
