import { open } from "node:fs/promises";
import { Level } from "level";
import { damagedTables, tablesIn } from "./tables.ts";

export type Database = Level<string, Uint8Array>;

/**
 * Number of level-0 tables. LevelDB stops writing at 12 tables that wait for compaction, and slows down from 8 on
 * (`db/dbformat.h`).
 */
export const level0Tables = (db: Database): number => Number(propertyOf(db, "leveldb.num-files-at-level0"));

// `Level` is ClassicLevel here; its types also cover browsers.
const propertyOf = (db: Database, name: string): string =>
  (db as unknown as { getProperty(name: string): string }).getProperty(name);

/**
 * Returns the damaged tables that are in use. Others may look damaged: a table that was being written when a process
 * ended, which LevelDB deletes on opening, or one that is being written now.
 */
export async function damagedAmongLive(db: Database, folder: string, suspects?: readonly string[]): Promise<string[]> {
  const found = suspects ?? (await damagedTables(folder, await tablesIn(folder)));
  const lines = propertyOf(db, "leveldb.sstables").matchAll(/^ (\d+):\d+\[/gm);
  const live = new Set([...lines].map(([, number]) => Number(number)));
  // Checked again: LevelDB gives the number of an abandoned table to the next one.
  return damagedTables(
    folder,
    found.filter((name) => live.has(Number.parseInt(name, 10))),
  );
}

type ChainedBatch = ReturnType<Database["batch"]>;
type PutPrivately = (key: string, value: Uint8Array) => void;

/**
 * Returns the function that puts into a batch, without the library's copy of each operation for its hooks and events.
 * `_put` is what `abstract-level` documents for implementations: it takes what the encodings return, which for text and
 * bytes is the same. The batch must have another operation, put in the usual way: the library counts those.
 */
export function putInto(batch: ChainedBatch): PutPrivately {
  const { _put: put } = batch as unknown as { readonly _put?: PutPrivately };
  return put === undefined ? (key, value) => void batch.put(key, value) : put.bind(batch);
}

/** Deletes the remains of an interrupted opening. */
export const destroyDatabase = (folder: string): Promise<void> =>
  (Level as unknown as { destroy(folder: string): Promise<void> }).destroy(folder);

export async function openDatabase(folder: string, { create }: { readonly create: boolean }): Promise<Database> {
  const db: Database = new Level(folder, {
    createIfMissing: create,
    keyEncoding: "utf8",
    valueEncoding: "view",
    // Four times LevelDB's default: fewer and larger files during a bulk import.
    writeBufferSize: 16 * 1024 * 1024,
    cacheSize: 32 * 1024 * 1024,
  });
  await db.open();
  // LevelDB replaces the CURRENT file without syncing the directory.
  const directory = await open(folder);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
  return db;
}
