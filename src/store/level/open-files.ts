import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../base/log.ts";

/**
 * Keeps LevelDB's large files open. LevelDB deletes files under the lock that each of its reads and writes takes, and
 * the file system needs 4 to 12 ms to free 16 MiB. A file that is open loses only its name then; its space is freed
 * when it is closed here, in a thread of the pool.
 */
export interface OpenFiles {
  /** Opens new files, and closes those that were deleted. */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** Most tables have 2 MiB; those that LevelDB makes of a log are larger. */
const largeBytes = 4 * 1024 * 1024;
const writtenWithinMs = 10_000;

export function createOpenFiles({ folder, log }: { readonly folder: string; readonly log: Log }): OpenFiles {
  const held = new Map<string, FileHandle>();
  /** Tables that are complete never grow. */
  let small = new Set<string>();
  let isClosed = false;
  let checking: Promise<void> | undefined;

  async function hold(name: string): Promise<void> {
    const file = await open(join(folder, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (file === undefined) return;
    const { size, mtimeMs } = await file.stat();
    if (isLog(name) || size >= largeBytes) held.set(name, file);
    else await file.close();
    // A younger table may be one that is being written.
    if (size < largeBytes && Date.now() - mtimeMs > writtenWithinMs) small.add(name);
  }

  async function checkOnce(): Promise<void> {
    try {
      const names = new Set(await readdir(folder));
      small = small.intersection(names);
      for (const [name, file] of held) {
        if (names.has(name)) continue;
        held.delete(name);
        await file.close();
      }
      for (const name of names) {
        if (isClosed) return;
        if ((isLog(name) || isTable(name)) && !held.has(name) && !small.has(name)) await hold(name);
      }
    } catch (err) {
      log.warn("could not open the store's files; their deletion may delay other calls", { err });
    }
  }

  return {
    async check() {
      if (isClosed) return;
      checking ??= checkOnce().finally(() => {
        checking = undefined;
      });
      await checking;
    },
    async close() {
      isClosed = true;
      await checking;
      for (const file of held.values()) await file.close();
      held.clear();
    },
  };
}

const isLog = (name: string): boolean => name.endsWith(".log");
const isTable = (name: string): boolean => name.endsWith(".ldb");
