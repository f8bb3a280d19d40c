import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { bytesFor } from "../base/message-bytes.ts";
import type { Change, Store } from "./contract.ts";
import { keyOf } from "./keys.ts";

/** Describes how messages of one kind are stored. */
export interface Collection<S extends DescMessage> {
  readonly store: Store;
  readonly name: string;
  readonly schema: S;
  /**
   * Messages hold secrets, all or those for which the function says so, and are encrypted as a whole. With a function,
   * their facets are too. Keys and secondary keys are never encrypted.
   */
  readonly secret?: true | ((value: MessageShape<S>) => boolean);
  readonly key: (value: MessageShape<S>) => readonly string[];
  /** Number of parts of `key`: for secondary keys with extra parts, such as a time to sort by. */
  readonly keyParts?: number;
  /** Fills in fields that are known but not stored. */
  readonly complete?: (value: MessageShape<S>, revision: number) => void;
  /** Removes those fields before storing. */
  readonly strip?: (value: MessageShape<S>) => MessageShape<S>;
  readonly indexes?: Readonly<Record<string, (value: MessageShape<S>) => readonly (readonly string[])[]>>;
  /**
   * Values stored beside a record, under `name.facet` and the record's parts: for readers that keep these values of all
   * records in memory, and would otherwise have to read every record. Undefined: not stored.
   */
  readonly facets?: Readonly<Record<string, (value: MessageShape<S>) => Uint8Array | undefined>>;
  /**
   * Keys without a value that find records by what is in a facet, computed from the record's own key parts, joined, and
   * the facet. They are written and deleted with the facet.
   */
  readonly facetKeys?: Readonly<Record<string, (own: string, facet: Uint8Array) => readonly string[]>>;
}

/** A record before and after a change; undefined: it does not exist. */
interface RecordStep<T> {
  readonly before: T | undefined;
  readonly next: T | undefined;
  /** The record's own key parts, joined. */
  readonly own: string;
}

const empty = new Uint8Array();
const none: readonly string[] = [];
/** Up to so many secondary keys, a copy costs less than the memory that a growing list reserves. */
const fewKeys = 4;

/**
 * Returns the function that turns a step into changes: of the record, its secondary keys and its facets. `expect` is
 * the record's revision; undefined if nothing has to be looked up.
 */
export function recordChanges<S extends DescMessage>({
  name,
  schema,
  secret,
  strip = (value) => value,
  indexes = {},
  facets = {},
  facetKeys = {},
}: Collection<S>): (step: RecordStep<MessageShape<S>>, expect: number | undefined) => Change[] {
  type T = MessageShape<S>;
  const bytesOf = bytesFor(schema);
  const indexSpaces = Object.entries(indexes).map(([index, keysOf]) => ({ space: `${name}.${index}`, keysOf }));
  const facetSpaces = Object.entries(facets).map(([facet, of]) => ({
    space: `${name}.${facet}`,
    of,
    keysOf: facetKeys[facet],
  }));

  /** A secondary key ends in the record's own key parts. */
  function secondaryKeys(value: T | undefined, own: string): readonly string[] {
    if (value === undefined || indexSpaces.length === 0) return none;
    let keys: string[] = [];
    for (const { space, keysOf } of indexSpaces) {
      for (const parts of keysOf(value)) {
        const found = `${keyOf(space, ...parts)}\0${own}`;
        if (keys.includes(found)) continue;
        // A list that grows reserves room for sixteen more: more than most records need.
        if (keys.length < fewKeys) keys = [...keys, found];
        else keys.push(found);
      }
    }
    return keys;
  }

  const holdsSecret = (value: T): boolean => secret === true || secret?.(value) === true;

  function addFacets(changes: Change[], { before, next, own }: RecordStep<T>): void {
    const isSecret = secret !== true && next !== undefined && holdsSecret(next);
    for (const { space, of, keysOf } of facetSpaces) {
      const old = before && of(before);
      const current = next && of(next);
      // An older version may have computed a different facet: it is deleted together with its record.
      if (next !== undefined && isSame(old, current)) continue;
      const change = { key: `${space}\0${own}`, value: current };
      changes.push(isSecret && current !== undefined ? { ...change, secret: true } : change);
      if (keysOf === undefined) continue;
      const [gone, added] = [old, current].map((facet) => new Set(facet && keysOf(own, facet)));
      for (const key of gone ?? none) if (!added?.has(key)) changes.push({ key, value: undefined });
      for (const key of added ?? none) if (!gone?.has(key)) changes.push({ key, value: empty });
    }
  }

  return ({ before, next, own }, expect) => {
    const key = `${name}\0${own}`;
    const value = next === undefined ? undefined : bytesOf(strip(next));
    const isSecret = next !== undefined && holdsSecret(next);
    const primary: Change = expect === undefined ? { key, value } : { key, value, expect };
    const first = isSecret ? { ...primary, secret: true as const } : primary;
    // For a few keys, two searches cost less than sets.
    const old = secondaryKeys(before, own);
    const current = secondaryKeys(next, own);
    const added = old.length === 0 ? current : current.filter((one) => !old.includes(one));
    const gone = old.length === 0 ? none : old.filter((one) => !current.includes(one));
    const changes: Change[] = [first, ...gone.map(removalOf), ...added.map(additionOf)];
    addFacets(changes, { before, next, own });
    return changes;
  };
}

const removalOf = (key: string): Change => ({ key, value: undefined });
const additionOf = (key: string): Change => ({ key, value: empty });

const isSame = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === undefined || b === undefined ? a === b : Buffer.compare(a, b) === 0;
