import { mkdir, readdir, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Level } from "level";
import type { Log } from "../base/log.ts";
import type { Metrics } from "../base/metrics.ts";
import {
  type Change,
  type Commit,
  type Condition,
  type Entry,
  type Range,
  StaleWrite,
  type Store,
  type StoreStatus,
  StoreUnavailable,
} from "./contract.ts";
import { createHistory } from "./history.ts";

/** Where the revision of the last commit is kept: NUL begins no key of ours. */
const headKey = "\0head";
/** Every value begins with its format and its revision. */
const valueFormat = 1;
const headerBytes = 7;
/** So many changes go into one write: a write is as durable as its one fsync, whoever shares it. */
const maxGroupChanges = 16_384;
const historyBytes = 16 * 1024 * 1024;
const reopenEveryMs = 1_000;
const marginBytes = 64 * 1024;

interface Waiting {
  readonly changes: readonly Change[];
  readonly conditions: readonly Condition[];
  readonly askedAt: number;
  readonly resolve: (revision: number) => void;
  readonly reject: (error: Error) => void;
}

interface LevelOptions {
  readonly folder: string;
  readonly log: Log;
  readonly metrics: Metrics;
}

type Database = Level<string, Uint8Array>;

/**
 * The embedded store. One process has the folder; commits that come while one is being written share the next
 * write and its fsync.
 *
 * After a write error nothing is acknowledged until the database was closed and opened again: LevelDB goes on
 * writing to a log whose tail it can no longer read back.
 */
export async function openLevelStore({ folder, log, metrics }: LevelOptions): Promise<Store> {
  await prepareFolder(folder);
  let db = await open(folder);
  let revision = await readHead(db);
  let failure: Error | undefined;
  let closed = false;
  let recovering: Promise<void> | undefined;
  let reopening: Promise<void> | undefined;
  let writing: Promise<void> | undefined;
  const closing = new AbortController();
  const waiting: Waiting[] = [];
  const history = createHistory({
    revision,
    maxBytes: historyBytes,
    onWatcherError: (err) => {
      metrics.unhandled.inc();
      log.error("a watcher of the store failed", { err });
    },
  });
  metrics.storeWritable.set(1);
  metrics.storeRevision.set(revision);

  function takeGroup(): Waiting[] {
    let size = 0;
    let count = 0;
    while (count < waiting.length) {
      const next = waiting[count];
      if (next === undefined || (count > 0 && size + next.changes.length > maxGroupChanges)) break;
      // Whether a range is empty is asked of the database: no other commit may be on its way there.
      const isAlone = next.conditions.some((condition) => "empty" in condition);
      if (isAlone && count > 0) break;
      size += next.changes.length;
      count += 1;
      if (isAlone) break;
    }
    return waiting.splice(0, count);
  }

  /** Judges each commit of a group against what is stored and what the group's earlier commits have changed. */
  async function judge(group: readonly Waiting[]): Promise<Judged[]> {
    const expected = new Set<string>();
    for (const asked of group) for (const { key } of expectations(asked)) expected.add(key);
    const keys = [...expected];
    const revisions = new Map<string, number>();
    if (keys.length > 0) {
      const values = await db.getMany(keys);
      for (const [i, key] of keys.entries()) {
        const value = values[i];
        revisions.set(key, value === undefined ? 0 : decode(key, value).revision);
      }
    }
    for (const asked of group) {
      const held = await heldAgainst(asked);
      if (held !== undefined) return [{ asked, stale: new StaleWrite({ key: held, current: revision }) }];
    }
    let next = revision;
    return group.map((asked) => {
      const stale = expectations(asked).find(({ key, expect }) => revisions.get(key) !== expect);
      if (stale !== undefined) {
        return { asked, stale: new StaleWrite({ key: stale.key, current: revisions.get(stale.key) ?? 0 }) };
      }
      next += 1;
      for (const { key, value } of asked.changes) {
        if (revisions.has(key)) revisions.set(key, value === undefined ? 0 : next);
      }
      return { asked, commit: { revision: next, changes: asked.changes } };
    });
  }

  /** A key that lies in a range which should be empty. */
  async function heldAgainst({ conditions }: Waiting): Promise<string | undefined> {
    for (const condition of conditions) {
      if (!("empty" in condition)) continue;
      const [held] = await db.keys({ gte: condition.empty.from, lt: condition.empty.to, limit: 1 }).all();
      if (held !== undefined) return held;
    }
    return undefined;
  }

  async function write(judged: readonly Judged[]): Promise<void> {
    const last = judged.findLast(({ commit }) => commit !== undefined)?.commit;
    if (last === undefined) return;
    const batch = judged.flatMap(({ commit }) => (commit === undefined ? [] : operationsOf(commit)));
    batch.push({ type: "put", key: headKey, value: encode(last.revision, new Uint8Array()) });
    await db.batch(batch, { sync: true });
    revision = last.revision;
  }

  async function writeGroup(): Promise<void> {
    const group = takeGroup();
    let judged: readonly Judged[] = [];
    try {
      judged = await judge(group);
      await write(judged);
      for (const { commit, stale, asked } of judged) {
        if (commit === undefined) {
          metrics.storeConflicts.inc();
          asked.reject(stale);
          continue;
        }
        metrics.storeCommits.inc();
        metrics.storeChanges.inc(commit.changes.length);
        metrics.storeCommitSeconds.observe((performance.now() - asked.askedAt) / 1_000);
        history.add(commit);
        asked.resolve(commit.revision);
      }
      metrics.storeRevision.set(revision);
    } catch (error) {
      fail(
        error,
        judged.flatMap(({ commit }) => commit ?? []),
      );
      for (const { reject } of group) reject(unavailable("the store could not write", error));
    }
  }

  async function writeWaiting(): Promise<void> {
    while (waiting.length > 0 && failure === undefined) await writeGroup();
    writing = undefined;
  }

  function fail(cause: unknown, uncertain: readonly Commit[]): void {
    failure = unavailable("the store stopped after a write error", cause);
    metrics.storeWritable.set(0);
    log.error("the store stopped after a write error", { err: cause });
    for (const { reject } of waiting.splice(0)) reject(failure);
    recovering = recover(uncertain);
  }

  async function recover(uncertain: readonly Commit[]): Promise<void> {
    while (!closed) {
      try {
        await sleep(reopenEveryMs, undefined, { signal: closing.signal });
        await requireRoom(folder);
        reopening = reopen(uncertain);
        await reopening;
        failure = undefined;
        metrics.storeWritable.set(1);
        log.info("the store takes writes again", { revision });
        return;
      } catch (error) {
        if (!closed) log.warn("the store could not be opened again yet", { err: error });
      }
    }
  }

  async function reopen(uncertain: readonly Commit[]): Promise<void> {
    await db.close();
    db = await open(folder);
    await takeUp(uncertain);
  }

  /** What failed may have reached the disk all the same: then it happened, and those who watch must hear of it. */
  async function takeUp(uncertain: readonly Commit[]): Promise<void> {
    const found = await readHead(db);
    if (found < revision) throw new Error(`the store was at revision ${revision} and came back at ${found}`);
    await db.put(headKey, encode(found, new Uint8Array()), { sync: true });
    revision = found;
    for (const commit of uncertain) if (commit.revision <= found) history.add(commit);
  }

  function requireOpen(): void {
    if (closed) throw new StoreUnavailable("the store is closed");
  }

  /** Reads go on after a write error; while the database is being opened again, they wait for it. */
  async function reading<T>(read: (from: Database) => Promise<T>): Promise<T> {
    requireOpen();
    try {
      await reopening;
      return await read(db);
    } catch (error) {
      throw unavailable("the store could not read", error);
    }
  }

  return {
    async get(key) {
      const value = await reading((from) => from.get(key));
      return value === undefined ? undefined : decode(key, value);
    },
    async getMany(keys) {
      const values = await reading((from) => from.getMany([...keys]));
      return keys.map((key, i) => {
        const value = values[i];
        return value === undefined ? undefined : decode(key, value);
      });
    },
    async list({ from, to, limit, reverse = false }: Range) {
      const range = { gte: from, lt: to, limit, reverse };
      const found = await reading((database) => database.iterator(range).all());
      return found.map(([key, value]) => decode(key, value));
    },
    commit(changes, conditions = []) {
      if (closed) return Promise.reject(new StoreUnavailable("the store is closed"));
      if (failure !== undefined) return Promise.reject(failure);
      return new Promise((resolve, reject) => {
        waiting.push({ changes, conditions, askedAt: performance.now(), resolve, reject });
        // One turn later, so that commits asked for in the same turn share the write.
        writing ??= Promise.resolve().then(writeWaiting);
      });
    },
    watch(from, onCommit) {
      requireOpen();
      return history.watch(from, onCommit);
    },
    status(): StoreStatus {
      return { backend: "level", revision, writable: !closed && failure === undefined, reason: failure?.message };
    },
    async close() {
      closed = true;
      closing.abort();
      await writing;
      await recovering;
      await db.close();
    },
  };
}

type Judged =
  | { readonly asked: Waiting; readonly commit: Commit; readonly stale?: undefined }
  | { readonly asked: Waiting; readonly commit?: undefined; readonly stale: StaleWrite };

/** The revisions that a commit rests on. */
function expectations({ changes, conditions }: Waiting): { readonly key: string; readonly expect: number }[] {
  const ofChanges = changes.flatMap(({ key, expect }) => (expect === undefined ? [] : [{ key, expect }]));
  return [...ofChanges, ...conditions.flatMap((condition) => ("empty" in condition ? [] : [condition]))];
}

type Operation =
  | { readonly type: "put"; readonly key: string; readonly value: Uint8Array }
  | { readonly type: "del"; readonly key: string };

const operationsOf = ({ revision, changes }: Commit): Operation[] =>
  changes.map(({ key, value }) =>
    value === undefined ? { type: "del", key } : { type: "put", key, value: encode(revision, value) },
  );

async function prepareFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { mode } = await stat(folder);
  if ((mode & 0o077) !== 0) {
    throw new Error(`${folder} is open to others (mode ${(mode & 0o777).toString(8)}); it must be 700`);
  }
}

async function open(folder: string): Promise<Database> {
  const db: Database = new Level(folder, {
    keyEncoding: "utf8",
    valueEncoding: "view",
    // Four times LevelDB's own: fewer and larger files under a bulk import.
    writeBufferSize: 16 * 1024 * 1024,
    cacheSize: 32 * 1024 * 1024,
  });
  await db.open();
  return db;
}

/**
 * To open LevelDB is to write what its log holds into a table. Closed for that on a full disk it could not be
 * opened again, and until there is room it can at least be read.
 */
async function requireRoom(folder: string): Promise<void> {
  const logs = (await readdir(folder)).filter((name) => name.endsWith(".log"));
  const sizes = await Promise.all(logs.map(async (name) => (await stat(join(folder, name))).size));
  const needed = sizes.reduce((sum, size) => sum + size, marginBytes);
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < needed) throw new Error(`the disk has ${bavail * bsize} bytes left; ${needed} are needed`);
}

async function readHead(db: Database): Promise<number> {
  const head = await db.get(headKey);
  return head === undefined ? 0 : decode(headKey, head).revision;
}

function encode(revision: number, value: Uint8Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(headerBytes + value.length);
  bytes[0] = valueFormat;
  bytes.writeUIntBE(revision, 1, 6);
  bytes.set(value, headerBytes);
  return bytes;
}

function decode(key: string, bytes: Uint8Array): Entry {
  if (bytes.length < headerBytes || bytes[0] !== valueFormat) {
    throw new StoreUnavailable("a value is damaged or in a format of a newer latchkey");
  }
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { key, value: bytes.subarray(headerBytes), revision: view.readUIntBE(1, 6) };
}

const unavailable = (message: string, cause: unknown): StoreUnavailable => new StoreUnavailable(message, { cause });
