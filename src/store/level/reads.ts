import { setImmediate } from "node:timers/promises";
import {
  type Entry,
  type KeyPage,
  type KeyRange,
  type Range,
  type ScrubStep,
  type Snapshot,
  StoreDamaged,
  StoreUnavailable,
} from "../contract.ts";
import { after } from "../keys.ts";
import type { AbsentKeys } from "./absent-keys.ts";
import type { CheckedDatabase } from "./checked-database.ts";
import { type Database, damagedAmongLive } from "./database.ts";
import { decode } from "./frame.ts";
import { headKey } from "./ledger.ts";

/** Reads of the store. They continue after a write error; while the database is being reopened, they wait. */
export interface LevelReads {
  get(key: string): Promise<Entry | undefined>;
  getMany(keys: readonly string[]): Promise<readonly (Entry | undefined)[]>;
  list(range: Range): Promise<readonly Entry[]>;
  keys(range: KeyRange): Promise<KeyPage>;
  snapshot(): Promise<Snapshot>;
  scrub(): AsyncGenerator<ScrubStep>;
}

interface LevelReadsOptions {
  readonly folder: string;
  readonly database: Pick<CheckedDatabase, "db">;
  readonly absent: Pick<AbsentKeys, "isAbsent">;
  /** Throws `StoreUnavailable` once the store is closed. */
  readonly requireOpen: () => void;
  /** Resolves once the database is not being reopened; rejects if reopening failed. */
  readonly reopened: () => Promise<void> | undefined;
}

const pageEntries = 1_000;
/** An iterator's default is 16 KiB: a hundred entries per page, and a thread switch for each page. */
const pageBytes = 256 * 1024;
/** The first possible key of a caller. */
const firstKey = "\x01";

export function createLevelReads(options: LevelReadsOptions): LevelReads {
  const { folder, database, absent, requireOpen, reopened } = options;
  async function reading<T>(read: (from: Database) => Promise<T>): Promise<T> {
    requireOpen();
    try {
      await reopened();
      return await read(database.db);
    } catch (cause) {
      throw new StoreUnavailable("the store could not read", { cause });
    }
  }

  return {
    async get(key) {
      const value = await reading((from) => from.get(key));
      return value === undefined ? undefined : decode(key, value);
    },
    async getMany(keys) {
      // An import asks for thousands of new connections: those need no read.
      const asked = keys.filter((key) => !absent.isAbsent(key));
      const values = await reading((from) => (asked.length === 0 ? Promise.resolve([]) : from.getMany(asked)));
      let at = 0;
      return keys.map((key) => {
        if (asked[at] !== key) return undefined;
        const value = values[at];
        at += 1;
        return value === undefined ? undefined : decode(key, value);
      });
    },
    async list({ from, to, limit, reverse = false }) {
      const range = { gte: from, lt: to, limit, reverse };
      const found = await reading((db) => db.iterator(range).all());
      return found.map(([key, value]) => decode(key, value));
    },
    async keys({ from, to, limit }) {
      const range = { gte: from, lt: to, limit, highWaterMarkBytes: pageBytes };
      const keys = await reading((db) => db.keys(range).all());
      const last = keys.at(-1);
      return { keys, rest: last === undefined || keys.length < limit ? undefined : after(last) };
    },
    async snapshot() {
      requireOpen();
      await reopened();
      return openSnapshot(database.db);
    },
    async *scrub() {
      for (const name of await damagedAmongLive(database.db, folder)) {
        yield { entries: [], damaged: [`the file ${name}`] };
      }
      let from = firstKey;
      for (;;) {
        const page = await reading((db) => db.iterator({ gte: from, limit: pageEntries }).all());
        yield checkPage(page);
        const last = page.at(-1)?.[0];
        if (last === undefined || page.length < pageEntries) return;
        from = `${last}\0`;
        await setImmediate();
      }
    },
  };
}

async function openSnapshot(db: Database): Promise<Snapshot> {
  const snapshot = db.snapshot();
  const head = await db.get(headKey, { snapshot });

  async function* pages(): AsyncGenerator<readonly Entry[]> {
    const iterator = db.iterator({ gte: firstKey, snapshot, highWaterMarkBytes: pageBytes });
    try {
      for (;;) {
        const page = await iterator.nextv(pageEntries).catch((cause: unknown) => {
          throw new StoreUnavailable("the store could not read", { cause });
        });
        if (page.length === 0) return;
        yield page.map(([key, value]) => decode(key, value));
      }
    } finally {
      await iterator.close();
    }
  }

  return { revision: head === undefined ? 0 : decode(headKey, head).revision, pages, close: () => snapshot.close() };
}

/** Decodes a page, and names the values that are damaged. */
function checkPage(page: readonly (readonly [string, Uint8Array])[]): ScrubStep {
  const damaged: string[] = [];
  const entries = page.flatMap(([key, value]) => {
    try {
      return [decode(key, value)];
    } catch (error) {
      if (!(error instanceof StoreDamaged)) throw error;
      damaged.push(`the value of ${JSON.stringify(key)}`);
      return [];
    }
  });
  return { entries, damaged };
}
