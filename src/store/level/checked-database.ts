import type { Log } from "../../base/log.ts";
import type { Change, Commit, Entry, SnapshotContent } from "../contract.ts";
import { type Database, openDatabase, putInto } from "./database.ts";
import { encode, encodeInPassing, headerBytes } from "./frame.ts";
import type { LastRevision } from "./last-revision.ts";
import { headKey, headOf } from "./ledger.ts";
import { checkedLedger, fillingKey } from "./open.ts";

/** LevelDB, and the ledger that proves at each opening that no commit is missing. */
export interface CheckedDatabase {
  /** Replaced by `reopen`. */
  readonly db: Database;
  /** The last durable revision. */
  readonly revision: number;
  /** Writes accepted commits in one durable batch. */
  write(commits: readonly Commit[], bytes: number): Promise<void>;
  /** Closes LevelDB, opens it again, and proves that it accepts writes. */
  reopen(): Promise<void>;
  /** Writes a snapshot into the empty database. `beforePage` is called with the size of each page. */
  fill(content: SnapshotContent, beforePage: (bytes: number) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

interface CheckedDatabaseOptions {
  readonly folder: string;
  readonly db: Database;
  readonly tail: LastRevision;
  readonly log: Log;
}

/** Rejects with `StoreRefused` if commits are missing; the caller closes the database then. */
export async function checkDatabase({
  folder,
  db: opened,
  tail,
  log,
}: CheckedDatabaseOptions): Promise<CheckedDatabase> {
  let db = opened;
  let { ledger, revision } = await checkedLedger(db, tail.found);

  function noteReached(): void {
    try {
      tail.reached(revision);
    } catch (err) {
      // The data is durable; only the check for a missing end is weaker.
      log.warn("could not write the last revision to its file; a lost end may go unnoticed", { err });
    }
  }

  return {
    get db() {
      return db;
    },
    get revision() {
      return revision;
    },
    async write(commits, bytes) {
      const last = commits.at(-1)?.revision ?? revision;
      const { line, head, done } = ledger.next({ revision: last, bytes });
      // A chained batch: an array of operations would be copied, which takes half as much time again.
      const batch = db.batch();
      const put = putInto(batch);
      for (const { revision: at, changes } of commits) {
        for (const { key, value } of changes) {
          if (value === undefined) batch.del(key);
          else put(key, encodeInPassing({ key, value, revision: at }));
        }
      }
      for (const entry of [line, head]) batch.put(entry.key, encode(entry));
      for (const key of done) batch.del(key);
      await batch.write({ sync: true });
      ledger.wrote();
      revision = last;
      noteReached();
    },
    async reopen() {
      await db.close();
      db = await openDatabase(folder, { create: false });
      const found = await checkedLedger(db, revision);
      // A test write proves that the disk accepts writes before the store says so.
      await db.put(headKey, (await db.get(headKey)) ?? encode(headOf(found.revision, 0)), { sync: true });
      ({ ledger, revision } = found);
      noteReached();
    },
    async fill({ revision: at, pages }, beforePage) {
      await db.put(fillingKey, encode({ key: fillingKey, value: new Uint8Array(), revision: 0 }), { sync: true });
      for await (const entries of pages) {
        await beforePage(entries.reduce((sum, { value }) => sum + value.length, 0));
        // Each batch is synced: LevelDB syncs only its current log, and the end of the previous log may not be on disk
        // yet.
        await db.batch(entries.map(putOf), { sync: true });
      }
      await db.batch([putOf(headOf(at, at)), { type: "del", key: fillingKey }], { sync: true });
      ({ ledger, revision } = await checkedLedger(db, at));
      noteReached();
      await tail.sync();
    },
    close: () => db.close(),
  };
}

/** Returns the size of the changes as the database stores them. */
export function storedBytesOf(commits: readonly Commit[]): number {
  let bytes = 0;
  for (const { changes } of commits) for (const change of changes) bytes += bytesOf(change);
  return bytes;
}

const bytesOf = ({ key, value }: Pick<Change, "key" | "value">): number =>
  key.length + (value === undefined ? 0 : headerBytes + value.length);

const putOf = (entry: Entry) => ({ type: "put" as const, key: entry.key, value: encode(entry) });
