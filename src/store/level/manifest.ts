import { open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32c, createCursor, unmasked } from "./bytes.ts";

/**
 * Removes a torn edit from LevelDB's manifest; returns false if that is not the problem.
 *
 * The manifest is a log of edits that name the tables and logs in use. Each edit is synced before the files that it
 * replaces are deleted. A power loss may destroy the last, unsynced edit, and leave zeros in its place or at its end,
 * since ext4 and XFS may extend a file before they write its data. LevelDB skips an edit that is cut off or all zeros,
 * but refuses one whose beginning is intact ("checksum mismatch").
 *
 * The bytes alone are no proof: an edit may end in zeros of its own and have been damaged later. The proof is that all
 * files in use before the edit still exist: then nothing depends on the edit yet, and dropping it loses nothing. See
 * doc/log_format.md and db/version_edit.cc of LevelDB.
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

/** A log is written in blocks; a record that crosses blocks is split into pieces with a checksum each. */
const blockBytes = 32_768;
/** Checksum (4 bytes), length (2) and kind (1) of a piece. */
const headerBytes = 7;
const kindAt = 6;
const [whole, first, middle, last] = [1, 2, 3, 4];

interface Edits {
  readonly edits: readonly Buffer[];
  /** End of the last edit. */
  readonly end: number;
  /** Start of the first damaged piece; the end of the file if there is none. */
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

/** Returns the end by the piece's header; past the end of the file if the header is missing. */
const endOfPiece = (log: Buffer, at: number): number =>
  at + headerBytes + (at + headerBytes <= log.length ? log.readUInt16LE(at + 4) : 0);

const isSound = (log: Buffer, at: number, to: number): boolean =>
  unmasked(log.readUInt32LE(at)) === crc32c(log, at + kindAt, to);

/** Reports whether zeros replace the end of this piece and everything after it. */
function isTorn(log: Buffer, broken: number): boolean {
  if (broken + headerBytes > log.length) return false;
  const written = log.findLastIndex((byte) => byte !== 0) + 1;
  return written < log.length && written <= endOfPiece(log, broken);
}

/** Reports whether the tables that these edits leave exist, and the first log that they need. */
function isAllThere(edits: readonly Buffer[], names: readonly string[]): boolean {
  const needed = neededAfter(edits);
  const numbersOf = (pattern: RegExp) =>
    new Set(names.filter((name) => pattern.test(name)).map((name) => Number.parseInt(name, 10)));
  const [logs, tables] = [numbersOf(/^\d+\.log$/), numbersOf(/^\d+\.(ldb|sst)$/)];
  return needed?.log !== undefined && logs.has(needed.log) && needed.tables.isSubsetOf(tables);
}

interface NeededFiles {
  /** The first log in use; older logs were moved to tables. */
  readonly log: number | undefined;
  readonly tables: ReadonlySet<number>;
}

/** Returns undefined for data that LevelDB does not write. */
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

/** Returns the log number if the edit sets one. */
function apply(edit: Buffer, tables: Set<number>): number | undefined {
  const cursor = createCursor(edit);
  const { varint } = cursor;
  const skipBytes = () => cursor.take(varint());
  let log: number | undefined;
  while (!cursor.isAtEnd()) {
    const field = varint();
    switch (field) {
      // Name of the key order.
      case 1:
        skipBytes();
        break;
      case 2:
        log = varint();
        break;
      // Next file number, last sequence number, and the previous log of old LevelDB versions.
      case 3:
      case 4:
      case 9:
        varint();
        break;
      // Position up to which a level was compacted.
      case 5:
        varint();
        skipBytes();
        break;
      // A table removed from a level.
      case 6:
        varint();
        tables.delete(varint());
        break;
      // A table added to a level: size, first and last key.
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
