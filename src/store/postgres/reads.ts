import {
  type Entry,
  type KeyPage,
  type KeyRange,
  type Range,
  type ScrubStep,
  type Snapshot,
  StoreUnavailable,
} from "../contract.ts";
import { after } from "../keys.ts";
import { byteaArray } from "./arrays.ts";
import { isDamage, reasonOf } from "./errors.ts";
import type { FullReads } from "./full-reads.ts";
import { entryOf, everything, firstOfSql, readPage, readPages } from "./pages.ts";
import type { Queries } from "./queries.ts";
import { createSharedQuery } from "./shared-query.ts";
import { openSnapshot } from "./snapshot.ts";

/** Reads of the store. */
export interface PostgresReads {
  get(key: string): Promise<Entry | undefined>;
  getMany(keys: readonly string[]): Promise<readonly (Entry | undefined)[]>;
  list(range: Range): Promise<readonly Entry[]>;
  keys(range: KeyRange): Promise<KeyPage>;
  snapshot(): Promise<Snapshot>;
  scrub(): AsyncGenerator<ScrubStep>;
  /** Returns the server's clock, in milliseconds. */
  clock(): Promise<number>;
}

/** A read of so many entries is short. */
const fewEntries = 64;

export function createPostgresReads(queries: Queries, schema: string, fullRead: FullReads): PostgresReads {
  const { read, readLong, dedicate } = queries;
  const getManySql = `select key, value, revision from ${schema}.entry where key = any ($1) and value is not null`;

  async function getMany(keys: readonly string[]): Promise<readonly (Entry | undefined)[]> {
    const rows = await read<[key: Buffer, value: Buffer, revision: number]>(getManySql, [
      byteaArray(keys.map((key) => Buffer.from(key))),
    ]);
    const entries = new Map(rows.map(entryOf).map((entry) => [entry.key, entry]));
    return keys.map((key) => entries.get(key));
  }

  /** Lists a range of any length as of one moment, in short statements. */
  const listAll = (range: Range): Promise<readonly Entry[]> =>
    fullRead(async (query) => {
      const entries: Entry[] = [];
      for await (const page of readPages(query, schema, range)) for (const entry of page) entries.push(entry);
      return entries;
    });

  return {
    getMany,
    async get(key) {
      const [entry] = await getMany([key]);
      return entry;
    },
    async list(range) {
      const query = range.limit <= fewEntries ? read : readLong;
      const { entries, rest } = await readPage(query, schema, range);
      return rest === undefined ? entries : listAll(range);
    },
    async keys({ from, to, limit }) {
      const rows = await readLong<[key: Buffer, isThere: boolean]>(
        `select key, value is not null from (${firstOfSql(schema)}) as first where key < $2`,
        [Buffer.from(from), Buffer.from(to), limit],
      );
      const last = rows.at(-1)?.[0];
      const keys = rows.flatMap(([key, isThere]) => (isThere ? [key.toString()] : []));
      return { keys, rest: last === undefined || rows.length < limit ? undefined : after(last.toString()) };
    },
    snapshot: () => openSnapshot({ dedicate, schema }),
    clock: createSharedQuery(async () => {
      const [row] = await read<[number]>("select extract(epoch from clock_timestamp())::float8 * 1000");
      if (row === undefined) throw new StoreUnavailable("the server did not return its time");
      return row[0];
    }),
    async *scrub() {
      let last = "";
      try {
        for await (const entries of readPages(readLong, schema, everything)) {
          last = entries.at(-1)?.key ?? last;
          yield { entries, damaged: [] };
        }
      } catch (error) {
        const { cause } = error as Error;
        if (!isDamage(cause)) throw error;
        yield { entries: [], damaged: [`what follows the key ${JSON.stringify(last)}: ${reasonOf(cause)}`] };
      }
    },
  };
}
