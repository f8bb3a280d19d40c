import { open } from "node:fs/promises";
import { Level } from "level";
import { damagedTables, tablesIn } from "./tables.ts";

export type Database = Level<string, Uint8Array>;

/** LevelDB stops writing at 12 tables that wait for compaction, and slows down from 8 on (`db/dbformat.h`). */
export const level0Tables = (db: Database): number => Number(propertyOf(db, "leveldb.num-files-at-level0"));

// `Level` is ClassicLevel here; its types speak of what browsers have as well.
const propertyOf = (db: Database, name: string): string =>
  (db as unknown as { getProperty(name: string): string }).getProperty(name);

/**
 * Tables that are damaged, of those that are read. Others may look damaged: one that was being written when a process
 * ended, which LevelDB deletes when it opens, or one that is being written now.
 */
export async function damagedAmongLive(db: Database, folder: string, suspects?: readonly string[]): Promise<string[]> {
  const found = suspects ?? (await damagedTables(folder, await tablesIn(folder)));
  const lines = propertyOf(db, "leveldb.sstables").matchAll(/^ (\d+):\d+\[/gm);
  const live = new Set([...lines].map(([, number]) => Number(number)));
  // Looked at again: the number of one that was given up is given to the next.
  return damagedTables(
    folder,
    found.filter((name) => live.has(Number.parseInt(name, 10))),
  );
}

/** Takes away what an opening that was cut short has left. */
export const destroyDatabase = (folder: string): Promise<void> =>
  (Level as unknown as { destroy(folder: string): Promise<void> }).destroy(folder);

export async function openDatabase(folder: string, { create }: { readonly create: boolean }): Promise<Database> {
  const db: Database = new Level(folder, {
    createIfMissing: create,
    keyEncoding: "utf8",
    valueEncoding: "view",
    // Four times LevelDB's own: fewer and larger files under a bulk import.
    writeBufferSize: 16 * 1024 * 1024,
    cacheSize: 32 * 1024 * 1024,
  });
  await db.open();
  // LevelDB puts a new file in the place of CURRENT, and leaves it to the file system when that is for good.
  const directory = await open(folder);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
  return db;
}
