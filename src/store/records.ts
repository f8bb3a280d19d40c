import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { bytesFor } from "../base/message-bytes.ts";
import { type Change, type Condition, type Entry, StaleWrite, type Store } from "./contract.ts";
import { after, keyOf, partsOf, under } from "./keys.ts";

/** A typed collection: messages of one kind under their key parts, with the secondary keys that find them. */
export interface Records<T> {
  readonly name: string;
  get(...parts: readonly string[]): Promise<StoredRecordOf<T> | undefined>;
  getMany(all: readonly (readonly string[])[]): Promise<readonly (StoredRecordOf<T> | undefined)[]>;
  /** Lists records whose keys begin with these parts, in order, after the given position. */
  page(request: PageRequest): Promise<readonly PositionedRecord<T>[]>;
  /** Like `page`, through a secondary key. */
  pageBy(index: string, request: PageRequest): Promise<readonly PositionedRecord<T>[]>;
  /** Changes that turn `before` into `after`, including secondary keys. The commit fails if `before` is outdated. */
  change(step: { readonly before: StoredRecordOf<T> | undefined; readonly after: T | undefined }): Change[];
  /** The same for a new record whose key was never used and is unique: needs no lookup. */
  added(value: T): Change[];
  /** Condition that this record is still as it was read. */
  unchanged(stored: StoredRecordOf<T>): Condition;
  /** Condition that no such record exists, or none that a secondary key finds. */
  none(parts: readonly string[], index?: string): Condition;
  /** Decodes a change of a commit; undefined if it belongs to another collection. */
  read(change: Pick<Change, "key" | "value">, revision: number): RecordChange<T> | undefined;
}

export interface StoredRecordOf<T> {
  readonly value: T;
  readonly revision: number;
  /** Stored size. */
  readonly bytes: number;
}

/** A record, and its position in the requested order. */
export interface PositionedRecord<T> extends StoredRecordOf<T> {
  readonly position: string;
}

export interface PageRequest {
  readonly under: readonly string[];
  readonly after?: string | undefined;
  readonly limit: number;
  readonly reverse?: boolean;
}

export interface RecordChange<T> {
  readonly parts: readonly string[];
  readonly value: T | undefined;
}

interface Collection<S extends DescMessage> {
  readonly store: Store;
  readonly name: string;
  readonly schema: S;
  /** Messages hold secrets, and are encrypted as a whole. Their keys and secondary keys are not encrypted. */
  readonly secret?: true;
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
}

const empty = new Uint8Array();
const none: readonly string[] = [];

export function createRecords<S extends DescMessage>(collection: Collection<S>): Records<MessageShape<S>> {
  type T = MessageShape<S>;
  const { store, name, schema, secret, key, complete, indexes = {}, facets = {} } = collection;
  const { keyParts = Number.MAX_SAFE_INTEGER } = collection;
  const { strip = (value: T) => value } = collection;
  const space = `${name}\0`;
  const bytesOf = bytesFor(schema);
  const primaryKey = (value: T) => keyOf(name, ...key(value));
  const indexSpaces = Object.entries(indexes).map(([index, keysOf]) => ({ space: `${name}.${index}`, keysOf }));
  const facetSpaces = Object.entries(facets).map(([facet, of]) => ({ space: `${name}.${facet}`, of }));

  /** `own` is the record's own key parts, joined; a secondary key ends in them. */
  function secondaryKeys(value: T | undefined, own: string): readonly string[] {
    if (value === undefined || indexSpaces.length === 0) return none;
    const keys: string[] = [];
    for (const { space, keysOf } of indexSpaces) {
      for (const parts of keysOf(value)) {
        const found = `${keyOf(space, ...parts)}\0${own}`;
        if (!keys.includes(found)) keys.push(found);
      }
    }
    return keys;
  }

  interface Step {
    readonly before: T | undefined;
    readonly next: T | undefined;
    readonly own: string;
  }

  function addFacets(changes: Change[], { before, next, own }: Step): void {
    for (const { space, of } of facetSpaces) {
      const [old, current] = [before && of(before), next && of(next)];
      // An older version may have computed a different facet: it is deleted together with its record.
      if (next !== undefined && isSame(old, current)) continue;
      changes.push({ key: `${space}\0${own}`, value: current });
    }
  }

  /** `expect` is undefined if nothing has to be looked up. */
  function changesOf({ before, next, own }: Step, expect: number | undefined): Change[] {
    const bare = { key: `${space}${own}`, value: next === undefined ? undefined : bytesOf(strip(next)) };
    const primary: Change = expect === undefined ? bare : { ...bare, expect };
    const changes: Change[] = [secret && next !== undefined ? { ...primary, secret } : primary];
    // There are few keys: sets would cost more than searching twice.
    const [old, current] = [secondaryKeys(before, own), secondaryKeys(next, own)];
    for (const gone of old) if (!current.includes(gone)) changes.push({ key: gone, value: undefined });
    for (const come of current) if (!old.includes(come)) changes.push({ key: come, value: empty });
    addFacets(changes, { before, next, own });
    return changes;
  }

  function decode(value: Uint8Array, revision: number): T {
    const message = fromBinary(schema, value);
    complete?.(message, revision);
    return message;
  }
  const storedOf = ({ value, revision }: Entry): StoredRecordOf<T> => ({
    value: decode(value, revision),
    revision,
    bytes: value.length,
  });

  async function getMany(all: readonly (readonly string[])[]): Promise<readonly (StoredRecordOf<T> | undefined)[]> {
    const found = await store.getMany(all.map((parts) => keyOf(name, ...parts)));
    return found.map((entry) => (entry === undefined ? undefined : storedOf(entry)));
  }

  function list(index: string, { under: parts, after: position, limit, reverse = false }: PageRequest) {
    const range = under(index, ...parts);
    if (position === undefined) return store.list({ ...range, limit, reverse });
    const at = `${range.from}${position}`;
    return store.list(reverse ? { ...range, to: at, limit, reverse } : { ...range, from: after(at), limit });
  }

  return {
    name,
    async get(...parts) {
      const entry = await store.get(keyOf(name, ...parts));
      return entry === undefined ? undefined : storedOf(entry);
    },
    getMany,
    async page(request) {
      const base = under(name, ...request.under).from.length;
      const found = await list(name, request);
      return found.map((entry) => ({ ...storedOf(entry), position: entry.key.slice(base) }));
    },
    async pageBy(index, request) {
      const space = `${name}.${index}`;
      const base = under(space, ...request.under).from.length;
      const page: PositionedRecord<T>[] = [];
      let { after: position } = request;
      // A record may be deleted between reading its secondary key and the record: then the next one is read.
      for (;;) {
        const limit = request.limit - page.length;
        const positions = (await list(space, { ...request, after: position, limit })).map(({ key: at }) =>
          at.slice(base),
        );
        // A secondary key ends in the whole primary key of its record.
        const found = await getMany(positions.map((at) => partsOf(at).slice(-keyParts)));
        for (const [i, stored] of found.entries()) {
          if (stored !== undefined) page.push({ ...stored, position: positions[i] ?? "" });
        }
        position = positions.at(-1);
        if (positions.length < limit || page.length === request.limit) return page;
      }
    },
    change({ before, after: next }) {
      const holder = next ?? before?.value;
      if (holder === undefined) return [];
      return changesOf({ before: before?.value, next, own: keyOf(...key(holder)) }, before?.revision ?? 0);
    },
    added: (next) => changesOf({ before: undefined, next, own: keyOf(...key(next)) }, undefined),
    unchanged: ({ value, revision }) => ({ key: primaryKey(value), expect: revision }),
    none: (parts, index) => ({ empty: under(index === undefined ? name : `${name}.${index}`, ...parts) }),
    read(change, revision) {
      if (!change.key.startsWith(space)) return undefined;
      const [, ...parts] = partsOf(change.key);
      // Read only now: reading a value decrypts it, and most changes belong to other collections.
      const { value } = change;
      return { parts, value: value === undefined ? undefined : decode(value, revision) };
    },
  };
}

const isAbout = (fence: Condition | undefined, { key }: StaleWrite): boolean =>
  fence !== undefined && "key" in fence && fence.key === key;

const isSame = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === undefined || b === undefined ? a === b : Buffer.compare(a, b) === 0;

export interface Decision<T> {
  readonly changes: readonly Change[];
  /** Requirements of the decision besides its changes. */
  readonly conditions?: readonly Condition[];
  readonly result: T;
}

/**
 * Reads, decides and commits, and retries if another commit came first. `decide` may run more than once. A fence
 * belongs to the caller's lease: once another process has the lease, retrying is useless, and `StaleWrite` is thrown.
 */
export async function transact<T>(
  store: Store,
  decide: () => Promise<Decision<T>>,
  fence?: Condition,
): Promise<{ readonly result: T; readonly revision: number }> {
  for (;;) {
    const { changes, conditions = [], result } = await decide();
    if (changes.length === 0) return { result, revision: 0 };
    try {
      const all = fence === undefined ? conditions : [...conditions, fence];
      return { result, revision: await store.commit(changes, all) };
    } catch (error) {
      // Any other conflict means that another commit succeeded, so the loop ends eventually.
      if (!(error instanceof StaleWrite) || isAbout(fence, error)) throw error;
    }
  }
}
