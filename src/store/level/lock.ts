import { open, unlink } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StoreRefused } from "../contract.ts";

/**
 * Ensures that one process owns a store's folder. LevelDB's own lock does not work within a process, and is lost for
 * all when a second opening of the folder fails there. So the owner listens on a socket in the folder and reports its
 * PID: a response proves that the owner is alive, which a PID file does not.
 */
export interface FolderLock {
  release(): Promise<void>;
}

export const lockFile = "lock";
/** Folders open in this process, by real path. */
const held = new Set<string>();
const answerWithinMs = 1_000;

interface LockOptions<T> {
  /** The folder's real path. */
  readonly folder: string;
  /** Opens LevelDB, whose lock decides between two processes that both find no owner. */
  readonly open: () => Promise<T>;
}

/** Opens the folder's contents for this process alone. */
export async function lockFolder<T>({ folder, open: openHeld }: LockOptions<T>): Promise<[T, FolderLock]> {
  if (held.has(folder)) throw new StoreRefused(`${folder} is open in this process already`);
  held.add(folder);
  try {
    await requireNobody(folder);
    const opened = await openHeld().catch(async (error: unknown) => {
      if (!isLocked(error)) throw error;
      // The owner will listen in a moment.
      await sleep(200);
      await requireNobody(folder);
      throw new StoreRefused(`${folder} is in use by another process`);
    });
    const server = await listen(folder);
    const release = async () => {
      await new Promise((resolve) => server.close(resolve));
      held.delete(folder);
    };
    return [opened, { release }];
  } catch (error) {
    held.delete(folder);
    throw error;
  }
}

async function requireNobody(folder: string): Promise<void> {
  const answer = await withSocketPath(folder, ask);
  if (answer === undefined) return;
  const who = answer === "" ? "a process that does not answer" : `process ${answer}`;
  throw new StoreRefused(`${folder} is in use by ${who}`);
}

/** Returns the owner's response: empty if it does not respond, undefined if there is no owner. */
function ask(path: string): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    let answer = "";
    const timer = setTimeout(() => socket.destroy(), answerWithinMs);
    socket.setEncoding("utf8").on("data", (text: string) => {
      answer += text;
    });
    socket.once("close", () => {
      clearTimeout(timer);
      resolve(answer.trim());
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      // No process listens. A reset comes from an owner that is just ending.
      if (error.code === "ECONNREFUSED" || error.code === "ENOENT") resolve(undefined);
      else if (error.code === "ECONNRESET") resolve("");
      else reject(error);
    });
  });
}

async function listen(folder: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.end(`${process.pid}\n`);
  });
  // The server responds as long as the process lives, but does not keep the process alive.
  server.unref();
  // This process has LevelDB's lock, so an existing socket belongs to a dead process.
  await unlink(join(folder, lockFile)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  await withSocketPath(folder, (path) => {
    return new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
  });
  return server;
}

/** The path of a socket may have 107 bytes on Linux, 103 elsewhere. */
const maxSocketPath = 103;

/** Reaches a longer path through the folder's descriptor. */
async function withSocketPath<T>(folder: string, use: (path: string) => Promise<T>): Promise<T> {
  const path = join(folder, lockFile);
  if (Buffer.byteLength(path) <= maxSocketPath) return use(path);
  const handle = await open(folder);
  try {
    return await use(`/proc/self/fd/${handle.fd}/${lockFile}`);
  } finally {
    await handle.close();
  }
}

const isLocked = (error: unknown): boolean =>
  error instanceof Error && (error.cause as { code?: string } | undefined)?.code === "LEVEL_LOCKED";
