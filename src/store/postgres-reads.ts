import type { Entry } from "./contract.ts";
import { byteaArray } from "./postgres-arrays.ts";
import type { Query } from "./postgres-connections.ts";
import { isBroken } from "./postgres-errors.ts";
import { entryOf } from "./postgres-pages.ts";

/**
 * Reads of single keys that come while others are under way wait here and share the next statement, as commits do:
 * a thousand who ask at once cost the server a few statements, and none of them waits in a row for its own.
 */
export type GetMany = (keys: readonly string[]) => Promise<readonly (Entry | undefined)[]>;

interface ReadsOptions {
  readonly query: Query;
  readonly schema: string;
}

interface Waiting {
  readonly keys: readonly string[];
  readonly resolve: (entries: readonly (Entry | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The other connections are left to lists, to the clock and to the pruner. */
const maxUnderWay = 4;
/** One statement must not keep whoever shares it waiting for long, nor its answer hold the loop up. */
const maxGroupKeys = 256;

type Row = readonly [key: Buffer, value: Buffer, revision: number];

export function createReads({ query, schema }: ReadsOptions): GetMany {
  const waiting: Waiting[] = [];
  let underWay = 0;
  let isBegun = false;

  async function read(keys: readonly string[]): Promise<ReadonlyMap<string, Entry>> {
    const rows = await query<Row>(
      `select key, value, revision from ${schema}.entry where key = any ($1) and value is not null`,
      [byteaArray(keys.map((key) => Buffer.from(key)))],
    );
    return new Map(rows.map(entryOf).map((entry) => [entry.key, entry]));
  }

  /** Everybody who asked for the same few keys has a place in the same statement. */
  function takeGroup(): { readonly group: Waiting[]; readonly keys: ReadonlySet<string> } {
    const keys = new Set<string>();
    let count = 0;
    for (const next of waiting) {
      if (count > 0 && keys.size + next.keys.length > maxGroupKeys) break;
      for (const key of next.keys) keys.add(key);
      count += 1;
    }
    return { group: waiting.splice(0, count), keys };
  }

  async function answer(group: readonly Waiting[], keys: ReadonlySet<string>): Promise<void> {
    try {
      const entries = await read([...keys]);
      for (const one of group) one.resolve(one.keys.map((key) => entries.get(key)));
    } catch (error) {
      // A damaged page, say: only those who want what lies on it are to be told.
      const isOfOne = group.length > 1 && !isBroken(error);
      if (isOfOne) for (const one of group) await answer([one], new Set(one.keys));
      else for (const one of group) one.reject(error);
    }
  }

  function begin(): void {
    isBegun = false;
    while (waiting.length > 0 && underWay < maxUnderWay) {
      const { group, keys } = takeGroup();
      underWay += 1;
      void answer(group, keys).then(() => {
        underWay -= 1;
        begin();
      });
    }
  }

  return (keys) =>
    new Promise((resolve, reject) => {
      waiting.push({ keys, resolve, reject });
      if (isBegun) return;
      isBegun = true;
      // One turn later, so that what is asked for in the same turn shares the statement.
      queueMicrotask(begin);
    });
}
