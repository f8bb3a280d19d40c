import { readdir, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Space } from "../contract.ts";

/**
 * Space that is kept free: the store stops before LevelDB hits a full disk, which it can neither compact nor be opened
 * on. A twentieth of the disk, at most what LevelDB needs for its logs and a compaction.
 */
const maxReserveBytes = 128 * 1024 * 1024;
const reserveShare = 0.05;
/** After a shortage, slightly more must be free before writes resume, to avoid flapping. */
const resumeShare = 1.1;

export interface Room {
  readonly freeBytes: number;
  readonly reserveBytes: number;
}

export async function roomIn(folder: string): Promise<Room> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return {
    freeBytes: bavail * bsize,
    reserveBytes: Math.min(maxReserveBytes, Math.floor(blocks * bsize * reserveShare)),
  };
}

/** Returns why writes stop; undefined while there is room. */
export function lackOfRoom({ freeBytes, reserveBytes }: Room, wasLacking: boolean): string | undefined {
  const wanted = wasLacking ? reserveBytes * resumeShare : reserveBytes;
  if (freeBytes >= wanted) return undefined;
  return `the disk has ${mebibytes(freeBytes)} MiB left; at least ${mebibytes(wanted)} must stay free`;
}

/**
 * Opening LevelDB writes its log into a table. On a full disk, a closed database could not be reopened, while an open
 * one can at least be read.
 */
export async function requireRoomToOpen(folder: string): Promise<void> {
  const logs = (await readdir(folder)).filter((name) => name.endsWith(".log"));
  const sizes = await Promise.all(logs.map(async (name) => (await stat(join(folder, name))).size));
  const needed = sizes.reduce((sum, size) => sum + size, marginBytes);
  const { freeBytes } = await roomIn(folder);
  if (freeBytes < needed) throw new Error(`the disk has ${freeBytes} bytes left; ${needed} are needed`);
}

const marginBytes = 64 * 1024;

/** Returns the size of the store's files, and the free space of their disk. */
export async function spaceOf(folder: string): Promise<Space> {
  const [usedBytes, { freeBytes }] = await Promise.all([usedIn(folder), roomIn(folder)]);
  return { usedBytes, freeBytes };
}

async function usedIn(folder: string): Promise<number> {
  const sizes = await Promise.all(
    (await readdir(folder)).map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        // A compaction deleted the file since it was listed.
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

const mebibytes = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1);
