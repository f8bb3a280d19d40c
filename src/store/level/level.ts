import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import {
  type CommitOutcome,
  type CommitRequest,
  createCommitQueue,
  emptiesOf,
  expectationsOf,
} from "../commit-queue.ts";
import {
  type Backend,
  type Change,
  type Commit,
  type Entry,
  type Range,
  type ScrubStep,
  type Snapshot,
  type SnapshotContent,
  StaleWrite,
  StoreDamaged,
  type StoreStatus,
  StoreUnavailable,
  StoreUsed,
} from "../contract.ts";
import { createHistory } from "../history.ts";
import { createRecentRevisions } from "../recent-revisions.ts";
import { type Database, damagedAmongLive, level0Tables, openDatabase } from "./database.ts";
import { requireWritable, writeMarker } from "./folder.ts";
import { decode, encode, headerBytes } from "./frame.ts";
import { headKey, headOf, type Ledger } from "./ledger.ts";
import { checkedLedger, fillingKey, format, openFolder } from "./open.ts";
import { lackOfRoom, requireRoomToOpen, roomIn, usedIn } from "./space.ts";

const historyBytes = 16 * 1024 * 1024;
const reopenEveryMs = 1_000;
const lookEveryMs = 1_000;
const pageEntries = 1_000;
/** An iterator's default is 16 KiB: a hundred entries per page, and a thread switch for each page. */
const pageBytes = 256 * 1024;
/**
 * Up to this many revisions are read synchronously, in 1 to 3 µs each: they are in memory, or a filter in memory rules
 * them out, and a caller that changes a key on disk has just read it. Reading them in a thread costs each commit a tick
 * of the event loop, and ticks are long under load.
 */
const readAtOnce = 256;
/** The first possible key of a caller. */
const firstKey = "\x01";

interface LevelOptions {
  readonly folder: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Creates the store if there is none; default: true. */
  readonly create?: boolean;
}

/**
 * The embedded store. One process owns the folder; commits that arrive during a write share the next write and its
 * fsync.
 *
 * After a write error, nothing is acknowledged until the database was closed and reopened: LevelDB continues to write
 * to a log whose tail it can no longer read back.
 */
export async function openLevelStore({ folder: asked, log, metrics, create = true }: LevelOptions): Promise<Backend> {
  const { folder, db: opened, lock, marker: found, tail } = await openFolder({ folder: asked, create, log });
  let marker = found;
  let db: Database = opened;
  let ledger: Ledger;
  let revision: number;
  try {
    ({ ledger, revision } = await checkedLedger(db, tail.found));
  } catch (error) {
    tail.close();
    await db.close();
    await lock.release();
    throw error;
  }
  /** Why writes are refused: LevelDB failed, the disk is nearly full, or the store was moved. */
  let failure: StoreUnavailable | undefined;
  let lack: StoreUnavailable | undefined;
  let movedAway: StoreUnavailable | undefined;
  let closed = false;
  let recovering: Promise<void> | undefined;
  let reopening: Promise<void> | undefined;
  const closing = new AbortController();
  const history = createHistory({
    revision,
    maxBytes: historyBytes,
    onWatcherError: (err) => {
      metrics.unhandled.inc();
      log.error("a watcher of the store failed", { err });
    },
  });
  const queue = createCommitQueue({ metrics, write: writeGroup });
  const recent = createRecentRevisions();
  let room = await roomIn(folder);
  let writtenSinceLook = 0;
  const looking = setInterval(() => void look().then(syncTail), lookEveryMs);
  looking.unref();
  const trouble = () => failure ?? lack ?? movedAway;
  metrics.storeRevision.set(revision);
  await look();

  function showTrouble(): void {
    const reason = trouble();
    metrics.storeWritable.set(reason === undefined ? 1 : 0);
    if (reason === undefined) queue.resume();
    else queue.stop(reason);
  }

  /** Updates the metrics that warn an operator: free disk space, and tables waiting for compaction. */
  async function look(): Promise<void> {
    try {
      room = await roomIn(folder);
      if (closed) return;
      writtenSinceLook = 0;
      metrics.storeFreeBytes.set(room.freeBytes);
      if (failure === undefined) metrics.storeTables.set(level0Tables(db));
    } catch (err) {
      if (!closed) log.warn("the store's disk could not be looked at", { err });
      return;
    }
    const reason = lackOfRoom(room, lack !== undefined);
    if (reason !== undefined && lack === undefined) log.error("the store stops before the disk is full", { reason });
    if (reason === undefined && lack !== undefined) log.info("the store has room again", { freeBytes: room.freeBytes });
    lack = reason === undefined ? undefined : new StoreUnavailable(reason);
    showTrouble();
  }

  async function syncTail(): Promise<void> {
    try {
      if (!closed) await tail.sync();
    } catch (err) {
      log.warn("the store's end could not be synced", { err });
    }
  }

  /** Checks free space before large writes: between two periodic checks, a large import could fill the disk. */
  async function requireRoom(bytes: number): Promise<void> {
    writtenSinceLook += 2 * bytes;
    if (room.freeBytes - writtenSinceLook < room.reserveBytes) await look();
    if (lack !== undefined) throw lack;
  }

  async function writeGroup(group: readonly CommitRequest[]): Promise<readonly CommitOutcome[]> {
    let commits: readonly AcceptedCommit[] = [];
    try {
      const judged = await judge(group);
      commits = judged.flatMap((one) => ("changes" in one ? [one] : []));
      if (commits.length > 0) await write(commits);
      for (const commit of commits) history.add(commit);
      metrics.storeRevision.set(revision);
      return judged.map((one) => ("changes" in one ? one.revision : one));
    } catch (error) {
      if (error !== lack) fail(error, commits);
      throw error;
    }
  }

  /** Checks each commit against the stored state: no commit of a group depends on another commit of the group. */
  async function judge(group: readonly CommitRequest[]): Promise<readonly (AcceptedCommit | StaleWrite)[]> {
    const expectations = group.map(expectationsOf);
    const revisions = await revisionsOf(expectations);
    const judged: (AcceptedCommit | StaleWrite)[] = [];
    let next = revision;
    for (const [i, asked] of group.entries()) {
      const stale = expectations[i]?.find(({ key, expect }) => revisions.get(key) !== expect);
      const empties = stale === undefined && asked.conditions.length > 0 ? emptiesOf(asked) : [];
      const key = stale?.key ?? (empties.length === 0 ? undefined : await heldIn(empties));
      if (key !== undefined) {
        judged.push(new StaleWrite({ key, current: revisions.get(key) ?? revision }));
      } else {
        next += 1;
        judged.push({ revision: next, changes: asked.changes });
      }
    }
    return judged;
  }

  async function revisionsOf(
    all: readonly (readonly { readonly key: string }[])[],
  ): Promise<ReadonlyMap<string, number>> {
    const revisions = new Map<string, number>();
    const asked: string[] = [];
    for (const some of all) {
      for (const { key } of some) {
        if (revisions.has(key)) continue;
        const known = recent.of(key);
        revisions.set(key, known ?? 0);
        if (known === undefined) asked.push(key);
      }
    }
    if (asked.length === 0) return revisions;
    const values = asked.length <= readAtOnce ? asked.map((key) => db.getSync(key)) : await db.getMany(asked);
    for (const [i, key] of asked.entries()) {
      const value = values[i];
      if (value !== undefined) revisions.set(key, revisionOf(key, value));
    }
    return revisions;
  }

  /** Returns a key in a range that should be empty. */
  async function heldIn(empties: ReturnType<typeof emptiesOf>): Promise<string | undefined> {
    for (const { from, to } of empties) {
      const [held] = await db.keys({ gte: from, lt: to, limit: 1 }).all();
      if (held !== undefined) return held;
    }
    return undefined;
  }

  async function write(commits: readonly AcceptedCommit[]): Promise<void> {
    const last = commits.at(-1)?.revision ?? revision;
    const bytes = commits.reduce((sum, { changes }) => sum + bytesOf(changes), 0);
    await requireRoom(bytes);
    const { line, head, done } = ledger.next({ revision: last, bytes });
    // A chained batch: an array of operations would be copied, which takes half as much time again.
    const batch = db.batch();
    for (const { revision: at, changes } of commits) {
      for (const { key, value } of changes) {
        if (value === undefined) batch.del(key);
        else batch.put(key, encode({ key, value, revision: at }));
      }
    }
    for (const entry of [line, head]) batch.put(entry.key, encode(entry));
    for (const key of done) batch.del(key);
    await batch.write({ sync: true });
    for (const { revision: at, changes } of commits) recent.changed(changes, at);
    ledger.wrote();
    revision = last;
    noteReached();
  }

  function noteReached(): void {
    try {
      tail.reached(revision);
    } catch (err) {
      // The data is durable; only the check for a missing end is weaker.
      log.warn("the store could not note how far it has come", { err });
    }
  }

  function fail(cause: unknown, uncertain: readonly Commit[]): void {
    failure = new StoreUnavailable("the store stopped after a write error", { cause });
    recent.clear();
    showTrouble();
    log.error("the store stopped after a write error", { err: cause });
    recovering = recover(uncertain);
  }

  async function recover(uncertain: readonly Commit[]): Promise<void> {
    while (!closed) {
      try {
        await sleep(reopenEveryMs, undefined, { signal: closing.signal });
        // Until it can be reopened, the database stays open for reads.
        await requireRoomToOpen(folder);
        await requireWritable(folder);
        reopening = reopen(uncertain);
        await reopening;
        failure = undefined;
        showTrouble();
        log.info("the store takes writes again", { revision });
        return;
      } catch (error) {
        if (!closed) log.warn("the store could not be opened again yet", { err: error });
      }
    }
  }

  /**
   * Reopens the database. The failed write may have reached the disk anyway: then it counts, and watchers must receive
   * it.
   */
  async function reopen(uncertain: readonly Commit[]): Promise<void> {
    await db.close();
    db = await openDatabase(folder, { create: false });
    const found = await checkedLedger(db, revision);
    // A test write proves that the disk accepts writes before the store says so.
    await db.put(headKey, (await db.get(headKey)) ?? encode(headOf(found.revision, 0)), { sync: true });
    ({ ledger, revision } = found);
    noteReached();
    for (const commit of uncertain) if (commit.revision <= revision) history.add(commit);
  }

  function requireOpen(): void {
    if (closed) throw new StoreUnavailable("the store is closed");
  }

  /** Reads continue after a write error; while the database is being reopened, they wait. */
  async function reading<T>(read: (from: Database) => Promise<T>): Promise<T> {
    requireOpen();
    try {
      await reopening;
      return await read(db);
    } catch (cause) {
      throw new StoreUnavailable("the store could not read", { cause });
    }
  }

  async function* scrubbed(): AsyncGenerator<ScrubStep> {
    for (const name of await damagedAmongLive(db, folder)) yield { entries: [], damaged: [`the file ${name}`] };
    let from = firstKey;
    for (;;) {
      const page = await reading((database) => database.iterator({ gte: from, limit: pageEntries }).all());
      yield soundOf(page);
      const last = page.at(-1)?.[0];
      if (last === undefined || page.length < pageEntries) return;
      from = `${last}\0`;
      await setImmediate();
    }
  }

  async function takeIn({ revision: at, pages }: SnapshotContent): Promise<void> {
    await db.put(fillingKey, encode({ key: fillingKey, value: new Uint8Array(), revision: 0 }), { sync: true });
    for await (const entries of pages) {
      await requireRoom(entries.reduce((sum, { value }) => sum + value.length, 0));
      // Each batch is synced: LevelDB syncs only its current log, and the end of the previous log may not be on disk
      // yet.
      await db.batch(entries.map(putOf), { sync: true });
    }
    await db.batch([putOf(headOf(at, at)), { type: "del", key: fillingKey }], { sync: true });
    ({ ledger, revision } = await checkedLedger(db, at));
    noteReached();
    await tail.sync();
    history.lose(revision);
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
      return queue.commit(changes, conditions);
    },
    async watch(from, watcher) {
      requireOpen();
      return history.watch(from, watcher);
    },
    // No other process commits here, and local commits reach watchers before they resolve.
    caughtUp: () => undefined,
    async snapshot(): Promise<Snapshot> {
      requireOpen();
      await reopening;
      const source = db;
      const held = source.snapshot();
      const head = await source.get(headKey, { snapshot: held });
      async function* pages(): AsyncGenerator<readonly Entry[]> {
        const iterator = source.iterator({ gte: firstKey, snapshot: held, highWaterMarkBytes: pageBytes });
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
      const at = head === undefined ? 0 : decode(headKey, head).revision;
      return { revision: at, pages, close: () => held.close() };
    },
    async fill(content) {
      requireOpen();
      if (revision > 0 || queue.length > 0) throw new StoreUsed("the store holds something already");
      movedAway = new StoreUnavailable("the store is being filled");
      showTrouble();
      await takeIn(content);
      movedAway = undefined;
      showTrouble();
    },
    scrub: scrubbed,
    // Never set and never jumps, unlike the wall clock.
    clock: async () => performance.timeOrigin + performance.now(),
    isShared: false,
    status(): StoreStatus {
      const reason = closed ? "the store is closed" : trouble()?.message;
      return { backend: "level", storeId: marker.storeId, format, revision, writable: reason === undefined, reason };
    },
    async space() {
      const [usedBytes, { freeBytes }] = await Promise.all([usedIn(folder), roomIn(folder)]);
      return { usedBytes, freeBytes };
    },
    restoration: () => Promise.resolve(marker.restoration),
    async noteRestoration(restoration) {
      const noted = { ...marker, restoration };
      await writeMarker(folder, noted);
      marker = noted;
    },
    async retire(to) {
      movedAway = new StoreUnavailable(`the store was moved to ${to}`);
      showTrouble();
      await queue.drained();
      try {
        await writeMarker(folder, { ...marker, movedTo: to });
      } catch (error) {
        // The store stays where it is, and continues.
        movedAway = undefined;
        showTrouble();
        throw error;
      }
    },
    async close() {
      if (closed) return;
      closed = true;
      closing.abort();
      clearInterval(looking);
      await queue.drained();
      await recovering;
      await db.close();
      await tail.sync();
      tail.close();
      await lock.release();
    },
  };
}

/**
 * Returns NaN for a damaged value, so that commits depending on it are refused; reading it again reports the damage.
 */
function revisionOf(key: string, value: Uint8Array): number {
  try {
    return decode(key, value).revision;
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    return Number.NaN;
  }
}

/** A commit that passed all checks, with its changes. */
interface AcceptedCommit extends Commit {
  readonly changes: readonly Change[];
}

function bytesOf(changes: readonly Pick<Change, "key" | "value">[]): number {
  let bytes = 0;
  for (const { key, value } of changes) bytes += key.length + (value === undefined ? 0 : headerBytes + value.length);
  return bytes;
}

const putOf = (entry: Entry) => ({ type: "put" as const, key: entry.key, value: encode(entry) });

function soundOf(page: readonly (readonly [string, Uint8Array])[]): ScrubStep {
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
