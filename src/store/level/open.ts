import { randomUUID } from "node:crypto";
import type { Log } from "../../base/log.ts";
import { StoreDamaged, StoreRefused, StoreUnavailable } from "../contract.ts";
import { type Database, damagedAmongLive, destroyDatabase, openDatabase } from "./database.ts";
import { closeFiles, levelFiles, prepareFolder } from "./folder.ts";
import { decode, encode, isOfFirstFormat, upgraded } from "./frame.ts";
import { type LastRevision, openLastRevision } from "./last-revision.ts";
import { headKey, headOf, type Ledger, LedgerBroken, lineRange, readLedger } from "./ledger.ts";
import { type FolderLock, lockFolder } from "./lock.ts";
import { dropTornEdit } from "./manifest.ts";
import { type Marker, readMarker, writeMarker } from "./marker.ts";
import { requireRoomToOpen } from "./space.ts";
import { damagedTables, tablesIn } from "./tables.ts";

/** The format that is written. Older formats are upgraded at start; newer ones are refused. */
export const format = 2;
/** Key of the store's ID, for when the marker is missing. */
const idKey = "\0store";
/** Present while a store is being filled: a half-filled store must not be used. */
export const fillingKey = "\0filling";
const migrateAtOnce = 1_000;
const advice = "restore the last backup into an empty folder";

/** An opened folder with its contents. */
export interface OpenedFolder {
  readonly folder: string;
  readonly db: Database;
  readonly lock: FolderLock;
  readonly marker: Marker;
  readonly tail: LastRevision;
}

interface OpenOptions {
  readonly folder: string;
  readonly create: boolean;
  readonly log: Log;
}

/** Opens an existing store after checking all of it; creates one only in an empty folder. */
export async function openFolder({ folder: asked, create, log }: OpenOptions): Promise<OpenedFolder> {
  const folder = await prepareFolder(asked, { create });
  const closed = await closeFiles(folder);
  if (closed > 0)
    log.warn("files of the store were accessible to other users; restricted them to the owner", { closed });
  const found = await readMarker(folder);
  requireKnown(found, folder);
  const { hasCurrent, hasRecords } = await levelFiles(folder);
  if (!hasCurrent && (found !== undefined || hasRecords)) {
    throw new StoreRefused(`the file CURRENT is missing in ${folder}, which is not empty; ${advice}`);
  }
  if (!hasCurrent && !create) throw new StoreRefused(`there is no store in ${folder}`);
  await requireRoomToOpen(folder).catch((cause: Error) => {
    // An existing store opens once there is room; a new store should not be created on a full disk.
    if (!hasCurrent) throw new StoreRefused(`there is no space for a store in ${folder}: ${cause.message}`);
    throw new StoreUnavailable(cause.message, { cause });
  });
  const suspects = await damagedTables(folder, await tablesIn(folder));

  const isNew = found === undefined && !hasRecords;
  const [db, lock] = await lockFolder({ folder, open: () => openKnown({ folder, create: !hasCurrent, isNew, log }) });
  let tail: LastRevision | undefined;
  try {
    const damaged = await damagedAmongLive(db, folder, suspects);
    if (damaged.length > 0) throw new StoreRefused(`damaged in ${folder}: ${damaged.join(", ")}; ${advice}`);
    const marker = await identify({ db, found, log });
    if (found === undefined && marker.isNew && hasRecords && !(await isEmpty(db))) {
      throw new StoreRefused(`${folder} contains records but no head; ${advice}`);
    }
    tail = openLastRevision(folder);
    await tail.sync();
    const { isNew: _, ...written } = marker;
    if (found === undefined || found.format !== format) await writeMarker(folder, written);
    await closeFiles(folder);
    return { folder, db, lock, marker: written, tail };
  } catch (error) {
    tail?.close();
    await db.close();
    await lock.release();
    throw error;
  }
}

function requireKnown(marker: Marker | undefined, folder: string): void {
  if (marker?.movedTo !== undefined) {
    throw new StoreRefused(`the store in ${folder} was moved to ${marker.movedTo} and is out of date`);
  }
  if (marker !== undefined && marker.format > format) {
    throw new StoreRefused(
      `the store in ${folder} is of format ${marker.format}, written by a newer Latchkey; this one reads formats up to ${format}`,
    );
  }
}

interface OpenTarget {
  readonly folder: string;
  readonly create: boolean;
  /** No commit was ever acknowledged here: existing files are remains of an interrupted first opening. */
  readonly isNew: boolean;
  readonly log: Log;
}

/** Throws `StoreRefused` for problems that a retry would not fix. */
async function openKnown({ folder, create, isNew, log }: OpenTarget): Promise<Database> {
  try {
    return await openDatabase(folder, { create });
  } catch (error) {
    const { cause } = error as { readonly cause?: { readonly code?: string; readonly message?: string } };
    if (cause?.code !== "LEVEL_CORRUPTION" && !/Corruption|missing files|No such file/.test(cause?.message ?? "")) {
      throw error;
    }
    if (isNew) {
      await destroyDatabase(folder);
      return openDatabase(folder, { create: true });
    }
    if (await dropTornEdit(folder)) {
      log.info("the last entry of LevelDB's manifest was incomplete and not in use yet; removed it");
      return openKnown({ folder, create, isNew, log });
    }
    throw new StoreRefused(`LevelDB cannot open ${folder}: ${cause?.message}; ${advice}`, { cause: error });
  }
}

interface OpenedDatabase {
  readonly db: Database;
  readonly found: Marker | undefined;
  readonly log: Log;
}

/** Identifies the store. Without a marker, the store is new, older than markers, or has lost its marker. */
async function identify({ db, found, log }: OpenedDatabase): Promise<Marker & { readonly isNew: boolean }> {
  if ((await db.get(fillingKey)) !== undefined) {
    throw new StoreRefused("a restore into this folder was not finished; empty the folder and restore again");
  }
  const head = await db.get(headKey);
  if (head !== undefined && (head[0] ?? 0) > format) {
    throw new StoreRefused("the store was written by a newer Latchkey");
  }
  if (head !== undefined && isOfFirstFormat(head)) {
    log.info("upgrading the store to a newer format", { from: 1, to: format });
    await migrateFromFirst(db, head);
  }
  const id = await db.get(idKey);
  if (id !== undefined) {
    const storeId = new TextDecoder().decode(decode(idKey, id).value);
    if (found !== undefined && found.storeId !== storeId) {
      throw new StoreRefused(`the marker names the store ${found.storeId}, but the records belong to ${storeId}`);
    }
    if (found === undefined) log.warn("the store had no marker; wrote it again", { storeId });
    return { ...(found ?? newMarker(storeId)), format, isNew: false };
  }
  if (found !== undefined) throw new StoreRefused(`the store's records are missing, but its marker exists; ${advice}`);
  const storeId = randomUUID();
  const identity = { key: idKey, value: new TextEncoder().encode(storeId), revision: 0 };
  const made = head === undefined ? [identity, headOf(0, 0)] : [identity];
  // Both or neither: one without the other would look like a store with lost data.
  await db.batch(
    made.map((entry) => ({ type: "put" as const, key: entry.key, value: encode(entry) })),
    { sync: true },
  );
  return { ...newMarker(storeId), isNew: head === undefined };
}

const newMarker = (storeId: string): Marker => ({ storeId, format, createdAt: new Date().toISOString() });

async function isEmpty(db: Database): Promise<boolean> {
  return (await db.keys({ gte: "\x01", limit: 1 }).all()).length === 0;
}

/**
 * Adds checksums to values, in batches. Each value shows whether it has one, and the head comes last: an interrupted
 * migration continues at the next start.
 */
async function migrateFromFirst(db: Database, head: Uint8Array): Promise<void> {
  let after = "\0\uffff";
  for (;;) {
    const page = await db.iterator({ gt: after, limit: migrateAtOnce }).all();
    const batch = page.flatMap(([key, value]) => {
      const next = upgraded(key, value);
      return next === undefined ? [] : [{ type: "put" as const, key, value: next }];
    });
    if (batch.length > 0) await db.batch(batch, { sync: true });
    after = page.at(-1)?.[0] ?? after;
    if (page.length < migrateAtOnce) break;
  }
  const upgradedHead = upgraded(headKey, head);
  if (upgradedHead === undefined) return;
  const { revision } = decode(headKey, upgradedHead);
  await db.put(headKey, encode(headOf(revision, revision)), { sync: true });
}

/** Reads and checks the ledger, and that the store has not lost its latest commits. */
export async function checkedLedger(db: Database, atLeast: number): Promise<{ ledger: Ledger; revision: number }> {
  try {
    const stored = await db.get(headKey);
    if (stored === undefined) throw new LedgerBroken("the head is missing");
    const head = decode(headKey, stored);
    const lines = (await db.iterator(lineRange).all()).map(([key, value]) => decode(key, value));
    const ledger = readLedger(head, lines);
    if (head.revision < atLeast) {
      throw new LedgerBroken(`the store was at revision ${atLeast} and is at ${head.revision} now`);
    }
    return { ledger, revision: head.revision };
  } catch (error) {
    if (!(error instanceof LedgerBroken || error instanceof StoreDamaged)) throw error;
    throw new StoreRefused(`acknowledged commits are missing: ${error.message}; ${advice}`, { cause: error });
  }
}
