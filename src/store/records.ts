import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { type Change, type Condition, type Entry, StaleWrite, type Store } from "./contract.ts";
import { after, keyOf, partsOf, under } from "./keys.ts";
import { type Collection, recordChanges } from "./record-changes.ts";

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
  /** Only records whose next key part begins with this text. */
  readonly prefix?: string;
  readonly after?: string | undefined;
  readonly limit: number;
  readonly reverse?: boolean;
}

export interface RecordChange<T> {
  readonly parts: readonly string[];
  readonly value: T | undefined;
}

export function createRecords<S extends DescMessage>(collection: Collection<S>): Records<MessageShape<S>> {
  type T = MessageShape<S>;
  const { store, name, schema, key, complete } = collection;
  const { keyParts = Number.MAX_SAFE_INTEGER } = collection;
  const space = `${name}\0`;
  const changesOf = recordChanges(collection);

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

  function list(index: string, { under: parts, prefix = "", after: position, limit, reverse = false }: PageRequest) {
    const all = under(index, ...parts);
    const range = prefix === "" ? all : { from: all.from + prefix, to: `${all.from}${prefix}${lastCharacter}` };
    if (position === undefined) return store.list({ ...range, limit, reverse });
    const at = `${all.from}${position}`;
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
    unchanged: ({ value, revision }) => ({ key: keyOf(name, ...key(value)), expect: revision }),
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

/** Sorts after everything else. */
const lastCharacter = "\u{10ffff}";

const isAbout = (fence: Condition, { key }: StaleWrite): boolean => "key" in fence && fence.key === key;

export interface Decision<T> {
  readonly changes: readonly Change[];
  /** Requirements of the decision besides its changes. */
  readonly conditions?: readonly Condition[];
  readonly result: T;
}

/**
 * Reads, decides and commits, and retries if another commit came first. `decide` may run more than once. A fence
 * belongs to the caller's lease or partition: once another process has it, retrying is useless, and `StaleWrite` is
 * thrown.
 */
export async function transact<T>(
  store: Store,
  decide: () => Promise<Decision<T>>,
  ...fences: readonly (Condition | undefined)[]
): Promise<{ readonly result: T; readonly revision: number }> {
  const held = fences.filter((fence) => fence !== undefined);
  for (;;) {
    const { changes, conditions = [], result } = await decide();
    if (changes.length === 0) return { result, revision: 0 };
    try {
      return {
        result,
        revision: await store.commit(changes, held.length === 0 ? conditions : [...conditions, ...held]),
      };
    } catch (error) {
      // Any other conflict means that another commit succeeded, so the loop ends eventually.
      if (!(error instanceof StaleWrite)) throw error;
      if (held.some((fence) => isAbout(fence, error))) throw error;
    }
  }
}
