import { createReadStream, type Stats } from "node:fs";
import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { addAbortSignal } from "node:stream";
import type { BackupManifest } from "../../gen/latchkey/v1/store_pb.ts";
import { readBackup, verifyBackup } from "../../store/backup/backup.ts";
import type { Entry } from "../../store/contract.ts";
import { unreadable } from "../terminal/input.ts";
import type { ProgressDisplay } from "../terminal/progress.ts";
import { type Terminal, write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

/** A backup file, which is always verified when read. */
export interface BackupFile {
  /** Reads all of it. Throws `BackupDamaged` unless it is complete and intact. */
  verify(progress: ProgressDisplay): Promise<BackupManifest>;
  /** Its entries, verified as they are read. */
  pages(): AsyncIterable<readonly Entry[]>;
}

const readBytes = 256 * 1024;

/** `-` is standard input, and can be read only once. */
export async function openBackup(file: string, { stdin, signal }: Terminal): Promise<BackupFile> {
  const total = file === "-" ? undefined : await sizeOf(file);

  async function* bytes(onRead: (length: number) => void = () => {}): AsyncGenerator<Uint8Array> {
    const source = file === "-" ? stdin : createReadStream(file, { highWaterMark: readBytes });
    // Standard input may stay silent for any time, so reading must be abortable.
    for await (const chunk of addAbortSignal(signal, source)) {
      onRead(chunk.length);
      yield chunk;
    }
  }

  return {
    verify(progress) {
      let done = 0;
      let items = 0;
      const source = bytes((length) => {
        done += length;
      });
      return verifyBackup(source, (page) => {
        items += page.length;
        progress.update({ done, total, items });
      });
    },
    pages: () => readBackup(bytes()),
  };
}

async function sizeOf(file: string): Promise<number | undefined> {
  let found: Stats;
  try {
    const handle = await open(file);
    found = await handle.stat().finally(() => handle.close());
  } catch (error) {
    throw unreadable(file, error);
  }
  if (found.isDirectory()) throw new UsageMistake(`${file} is a folder`);
  return found.isFile() ? found.size : undefined;
}

interface BackupDisplay {
  readonly terminal: Terminal;
  readonly progress: ProgressDisplay;
}

/**
 * Writes and verifies a backup as it arrives; `-` is standard output. A file gets its name only once it is complete and
 * on disk, and is readable only by its owner, since it names the customer's users.
 */
export async function writeBackup(
  file: string,
  chunks: AsyncIterable<Uint8Array>,
  { terminal, progress }: BackupDisplay,
): Promise<BackupManifest> {
  if (file === "-") return put({ chunks, progress, write: (chunk) => write(terminal.stdout, chunk) });
  const partial = `${file}.partial`;
  const handle = await create(partial);
  try {
    const manifest = await put({ chunks, progress, write: (chunk) => handle.writeFile(chunk) });
    await handle.sync();
    await requireOurs(handle, partial);
    await rename(partial, file);
    await syncFolder(dirname(file));
    return manifest;
  } catch (error) {
    if (await isOurs(handle, partial)) await rm(partial, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

interface BackupWrite {
  readonly chunks: AsyncIterable<Uint8Array>;
  readonly write: (chunk: Uint8Array) => Promise<void>;
  readonly progress: ProgressDisplay;
}

/** Writes the chunks, and verifies that they form a complete backup. */
function put({ chunks, write: writeChunk, progress }: BackupWrite): Promise<BackupManifest> {
  let items = 0;
  async function* written(): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      await writeChunk(chunk);
      yield chunk;
    }
  }
  return verifyBackup(written(), (page) => {
    items += page.length;
    progress.update({ done: 0, total: undefined, items });
  });
}

/** Creates a new file, replacing an existing one: keeps no permissions of another file, and follows no link. */
async function create(path: string): Promise<FileHandle> {
  try {
    await rm(path, { force: true });
    return await open(path, "wx", 0o600);
  } catch (cause) {
    const { code = "unknown error" } = cause as NodeJS.ErrnoException;
    throw new UsageMistake(`cannot write ${path}: ${code}`, { cause });
  }
}

/** Another process that writes a backup of the same name has replaced our file with its incomplete one. */
async function requireOurs(handle: FileHandle, path: string): Promise<void> {
  if (!(await isOurs(handle, path))) throw new Error(`another process is writing ${path}`);
}

async function isOurs(handle: FileHandle, path: string): Promise<boolean> {
  const [ours, found] = await Promise.all([handle.stat(), stat(path).catch(() => undefined)]);
  return found?.ino === ours.ino;
}

/** Makes the file's name as durable as its contents. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  await folder.sync().finally(() => folder.close());
}
