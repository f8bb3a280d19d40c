import { open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32c, createCursor, unmasked } from "./bytes.ts";

/**
 * LevelDB's manifest is a log of edits: which tables and logs it rests on. Each is synced before the files are deleted
 * that it does without. A power loss may take the last one, which nothing synced yet, and leave zeros in its place or
 * in that of its end, as ext4 and XFS may make a file longer before they write what is in it. LevelDB reads on over
 * an edit that is cut off or all zeros, and refuses one of which the beginning is there ("checksum mismatch"). Here
 * such an edit is taken away: false when that is not what is wrong.
 *
 * Bytes alone do not prove it, as an edit may end in zeros of its own and have been damaged later. That no file is
 * missing of those from before it does: then nothing was done yet that rests on it, and nothing is lost with it.
 * See doc/log_format.md and db/version_edit.cc of LevelDB.
 */
export async function dropTornEdit(folder: string): Promise<boolean> {
  const current = await readIfThere(join(folder, "CURRENT"));
  const [, name = ""] = /^(MANIFEST-\d+)\n$/.exec(current?.toString() ?? "") ?? [];
  const path = join(folder, name);
  const manifest = name === "" ? undefined : await readIfThere(path);
  if (manifest === undefined) return false;
  const { edits, end, broken } = readEdits(manifest);
  if (!isTorn(manifest, broken) || !isAllThere(edits, await readdir(folder))) return false;
  const file = await open(path, "r+");
  try {
    await file.truncate(end);
    await file.sync();
  } finally {
    await file.close();
  }
  return true;
}

function readIfThere(path: string): Promise<Buffer | undefined> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

/** A log is written in blocks; a record goes over the end of one in pieces, each with a checksum of its own. */
const blockBytes = 32_768;
/** Checksum (4 bytes), length (2) and kind (1) of a piece. */
const headerBytes = 7;
const kindAt = 6;
const [whole, first, middle, last] = [1, 2, 3, 4];

interface Edits {
  readonly edits: readonly Buffer[];
  /** Where the last of them ends. */
  readonly end: number;
  /** Where a piece begins that is not sound: the end of the file when there is none. */
  readonly broken: number;
}

function readEdits(log: Buffer): Edits {
  const edits: Buffer[] = [];
  let pieces: Buffer[] = [];
  let [at, end] = [0, 0];
  while (at < log.length) {
    const left = blockBytes - (at % blockBytes);
    if (left < headerBytes) {
      at += left;
      continue;
    }
    const to = endOfPiece(log, at);
    const kind = log[at + kindAt];
    const isDue = pieces.length === 0 ? kind === whole || kind === first : kind === middle || kind === last;
    if (!isDue || to > Math.min(log.length, at + left) || !isSound(log, at, to)) return { edits, end, broken: at };
    pieces.push(log.subarray(at + headerBytes, to));
    at = to;
    if (kind === first || kind === middle) continue;
    edits.push(Buffer.concat(pieces));
    pieces = [];
    end = at;
  }
  return { edits, end, broken: log.length };
}

/** As it says itself; behind the end of the file when its header is not there. */
const endOfPiece = (log: Buffer, at: number): number =>
  at + headerBytes + (at + headerBytes <= log.length ? log.readUInt16LE(at + 4) : 0);

const isSound = (log: Buffer, at: number, to: number): boolean =>
  unmasked(log.readUInt32LE(at)) === crc32c(log, at + kindAt, to);

/** Whether zeros take the place of this piece's end, and of everything behind it. */
function isTorn(log: Buffer, broken: number): boolean {
  if (broken + headerBytes > log.length) return false;
  const written = log.findLastIndex((byte) => byte !== 0) + 1;
  return written < log.length && written <= endOfPiece(log, broken);
}

/** Whether the tables are there that these edits leave, and the log from which on they need them. */
function isAllThere(edits: readonly Buffer[], names: readonly string[]): boolean {
  const needed = neededAfter(edits);
  const numbersOf = (pattern: RegExp) =>
    new Set(names.filter((name) => pattern.test(name)).map((name) => Number.parseInt(name, 10)));
  const [logs, tables] = [numbersOf(/^\d+\.log$/), numbersOf(/^\d+\.(ldb|sst)$/)];
  return needed?.log !== undefined && logs.has(needed.log) && needed.tables.isSubsetOf(tables);
}

interface NeededFiles {
  /** What older ones held lies in tables. */
  readonly log: number | undefined;
  readonly tables: ReadonlySet<number>;
}

/** Undefined for what LevelDB does not write. */
function neededAfter(edits: readonly Buffer[]): NeededFiles | undefined {
  const tables = new Set<number>();
  let log: number | undefined;
  try {
    for (const edit of edits) log = apply(edit, tables) ?? log;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
  return { log, tables };
}

/** Returns the number of the log, when the edit names another. */
function apply(edit: Buffer, tables: Set<number>): number | undefined {
  const cursor = createCursor(edit);
  const { varint } = cursor;
  const skipBytes = () => cursor.take(varint());
  let log: number | undefined;
  while (!cursor.isAtEnd()) {
    const field = varint();
    switch (field) {
      // The order of keys, by its name.
      case 1:
        skipBytes();
        break;
      case 2:
        log = varint();
        break;
      // The next number of a file, the last of a change, and a log of old versions of LevelDB.
      case 3:
      case 4:
      case 9:
        varint();
        break;
      // How far a level was compacted.
      case 5:
        varint();
        skipBytes();
        break;
      // A table that leaves a level.
      case 6:
        varint();
        tables.delete(varint());
        break;
      // A table that comes to a level, its size, its first and last key.
      case 7:
        varint();
        tables.add(varint());
        varint();
        skipBytes();
        skipBytes();
        break;
      default:
        throw new RangeError(`field ${field} of an edit`);
    }
  }
  return log;
}
