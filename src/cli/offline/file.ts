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

/** A backup as a file: never read without being checked. */
export interface BackupFile {
  /** All of it. Throws `BackupDamaged` unless it is whole. */
  verify(progress: ProgressDisplay): Promise<BackupManifest>;
  /** Its entries, checked as they come. */
  pages(): AsyncIterable<readonly Entry[]>;
}

const readBytes = 256 * 1024;

/** `-` is what is piped in, and can be read once. */
export async function openBackup(file: string, { stdin, signal }: Terminal): Promise<BackupFile> {
  const total = file === "-" ? undefined : await sizeOf(file);

  async function* bytes(onRead: (length: number) => void = () => {}): AsyncGenerator<Uint8Array> {
    const source = file === "-" ? stdin : createReadStream(file, { highWaterMark: readBytes });
    // What is piped in may say nothing for as long as it likes.
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
 * Writes a backup as it comes, checking it on its way; `-` is what reads us. A file has its name only once it is
 * whole and on the disk, and is its owner's alone: it names the customer's users.
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

/** Writes what comes, and checks that it is a backup whole. */
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

/** New, whatever another one left there: with nobody else's permissions, and through nobody's link. */
async function create(path: string): Promise<FileHandle> {
  try {
    await rm(path, { force: true });
    return await open(path, "wx", 0o600);
  } catch (cause) {
    const { code = "unknown error" } = cause as NodeJS.ErrnoException;
    throw new UsageMistake(`cannot write ${path}: ${code}`, { cause });
  }
}

/** Somebody who writes a backup of the same name has taken ours away, and what has its name is half of theirs. */
async function requireOurs(handle: FileHandle, path: string): Promise<void> {
  if (!(await isOurs(handle, path))) throw new Error(`somebody else is writing ${path}`);
}

async function isOurs(handle: FileHandle, path: string): Promise<boolean> {
  const [ours, found] = await Promise.all([handle.stat(), stat(path).catch(() => undefined)]);
  return found?.ino === ours.ino;
}

/** So that the name is as durable as what it names. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  await folder.sync().finally(() => folder.close());
}
