import type { Log } from "../../base/log.ts";
import { onBeat } from "../../base/loop/beat.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import { createCommitQueue } from "../commit-queue.ts";
import { type Backend, StoreUnavailable, StoreUsed } from "../contract.ts";
import { createStoreHistory } from "../history.ts";
import { createAbsentKeys } from "./absent-keys.ts";
import { type CheckedDatabase, checkDatabase } from "./checked-database.ts";
import { level0Tables } from "./database.ts";
import { createDiscard } from "./discard.ts";
import { watchDiskSpace } from "./disk-space.ts";
import { createGroupWriter } from "./group-writer.ts";
import { createMarkerFile } from "./marker.ts";
import { format, openFolder } from "./open.ts";
import { createOpenFiles } from "./open-files.ts";
import { createLevelReads } from "./reads.ts";
import { createRecovery } from "./recovery.ts";
import { createRefusals, type Refusals } from "./refusals.ts";
import { spaceOf } from "./space.ts";

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
 */
export async function openLevelStore({ folder: given, log, metrics, create = true }: LevelOptions): Promise<Backend> {
  const { folder, db, lock, marker, tail } = await openFolder({ folder: given, create, log });
  const database = await checkDatabase({ folder, db, tail, log }).catch(async (error: unknown) => {
    tail.close();
    await db.close();
    await lock.release();
    throw error;
  });
  const markerFile = createMarkerFile(folder, marker);
  let isClosed = false;
  const requireOpen = () => requireThat(!isClosed);
  const history = createStoreHistory({ revision: database.revision, log, metrics });
  const queue = createCommitQueue({ metrics, write: (group) => writeGroup(group) });
  const refusals = createRefusals({ queue, metrics });
  const recovery = createRecovery({ folder, database, refusals, history, log });
  const disk = await watchDiskSpace({ folder, refusals, log, metrics });
  const files = createOpenFiles({ folder, log });
  const absent = createAbsentKeys(database);
  const writeGroup = createGroupWriter({ database, absent, disk, refusals, recovery, history, metrics });
  const reads = createLevelReads({ folder, database, absent, requireOpen, reopened: () => recovery.reopening });
  const stopChecking = checkRegularly({ database, refusals, checks: [checkDisk, syncTail, files.check] });
  metrics.storeRevision.set(database.revision);
  await checkDisk();

  /** Updates the metrics that warn an operator: free disk space, and tables waiting for compaction. */
  async function checkDisk(): Promise<void> {
    await disk.check();
    if (!isClosed && refusals.of("writeError") === undefined) metrics.storeTables.set(level0Tables(database.db));
  }

  async function syncTail(): Promise<void> {
    try {
      if (!isClosed) await tail.sync();
    } catch (err) {
      log.warn("could not sync the file with the last revision; will retry", { err });
    }
  }

  return {
    ...reads,
    commit(changes, conditions = [], timing = {}) {
      if (isClosed) return Promise.reject(new StoreUnavailable("the store is closed"));
      return queue.commit(changes, conditions, timing);
    },
    async watch(from, watcher) {
      requireOpen();
      return history.watch(from, watcher);
    },
    discard: createDiscard({ database, disk, refusals, recovery, requireOpen }),
    // No other process commits here, and local commits reach watchers before they resolve.
    caughtUp: () => undefined,
    async fill(content) {
      requireOpen();
      if (database.revision > 0 || queue.length > 0) throw new StoreUsed("the store is not empty");
      refusals.set("moved", new StoreUnavailable("the store is being filled"));
      await database.fill(content, disk.require).finally(absent.clear);
      history.lose(database.revision);
      refusals.set("moved", undefined);
    },
    // Never set and never jumps, unlike the wall clock.
    clock: async () => performance.timeOrigin + performance.now(),
    isShared: false,
    status() {
      const { storeId } = markerFile.current;
      const reason = isClosed ? "the store is closed" : refusals.current?.message;
      return { backend: "level", storeId, format, revision: database.revision, writable: reason === undefined, reason };
    },
    space: () => spaceOf(folder),
    restoration: () => Promise.resolve(markerFile.current.restoration),
    noteRestoration: (restoration) => markerFile.update({ restoration }),
    async retire(to) {
      refusals.set("moved", new StoreUnavailable(`the store was moved to ${to}`));
      await queue.drained();
      try {
        await markerFile.update({ movedTo: to });
      } catch (error) {
        // The store stays where it is, and continues.
        refusals.set("moved", undefined);
        throw error;
      }
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      const recovered = recovery.stop();
      stopChecking();
      disk.close();
      await queue.drained();
      await recovered;
      await files.close();
      await database.close();
      await tail.sync();
      tail.close();
      await lock.release();
    },
  };
}

function requireThat(isOpen: boolean): void {
  if (!isOpen) throw new StoreUnavailable("the store is closed");
}

interface RegularCheck {
  readonly database: Pick<CheckedDatabase, "revision">;
  readonly refusals: Refusals;
  /** Run one after another. None of them rejects. */
  readonly checks: readonly (() => Promise<void>)[];
}

const checkEveryMs = 1_000;
/** Without writes. */
const restMs = 5_000;

/** Checks the disk, less often while nothing is written. Returns the function that ends the checks. */
function checkRegularly({ database, refusals, checks }: RegularCheck): () => void {
  let last = { revision: -1, at: 0 };
  return onBeat(checkEveryMs, () => {
    const { revision } = database;
    const isAtRest = revision === last.revision && refusals.current === undefined;
    if (isAtRest && performance.now() - last.at < restMs) return;
    last = { revision, at: performance.now() };
    void runAll(checks);
  });
}

async function runAll(checks: RegularCheck["checks"]): Promise<void> {
  for (const check of checks) await check();
}
