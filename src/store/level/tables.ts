import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { type Cursor, crc32c, createCursor, unmasked } from "./bytes.ts";

/**
 * Checks every block of LevelDB's tables. Each has a CRC-32C, but LevelDB as packaged verifies none: a flipped bit in a
 * key makes a record disappear silently. The format: blocks, each followed by its compression (1 byte) and checksum
 * (4); at the end, a footer with the positions of two index blocks. See doc/table_format.md of LevelDB.
 */
export async function damagedTables(folder: string, names: readonly string[]): Promise<string[]> {
  const damaged: string[] = [];
  for (const name of names.toSorted()) {
    const bytes = await readFile(join(folder, name)).catch((error: NodeJS.ErrnoException) => {
      // A compaction deleted the file since it was listed.
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (bytes !== undefined && !isSound(bytes)) damaged.push(name);
    await setImmediate();
  }
  return damaged;
}

export const tablesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith(".ldb") || name.endsWith(".sst"));

const footerBytes = 48;
const magic = 0xdb4775248b80fb57n;

interface FileRange {
  readonly at: number;
  readonly size: number;
}

function isSound(file: Buffer): boolean {
  try {
    if (file.length < footerBytes || file.readBigUInt64LE(file.length - 8) !== magic) return false;
    const footer = createCursor(file.subarray(file.length - footerBytes));
    const [meta, index] = [readPlace(footer), readPlace(footer)];
    // Each index block is verified before its entries are used.
    return [meta, index].every(
      (place) => isWhole(file, place) && placesIn(contents(file, place)).every((block) => isWhole(file, block)),
    );
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function isWhole(file: Buffer, { at, size }: FileRange): boolean {
  return unmasked(file.readUInt32LE(at + size + 1)) === crc32c(file, at, at + size + 1);
}

function contents(file: Buffer, { at, size }: FileRange): Buffer {
  const bytes = file.subarray(at, at + size);
  return file[at + size] === 1 ? unsnap(bytes) : bytes;
}

/** Returns the values of a block's entries, as positions. Skips the restart points at the end. */
function placesIn(block: Buffer): FileRange[] {
  const restarts = block.readUInt32LE(block.length - 4);
  const cursor = createCursor(block.subarray(0, block.length - 4 * (restarts + 1)));
  const places: FileRange[] = [];
  while (!cursor.isAtEnd()) {
    cursor.varint();
    const keyBytes = cursor.varint();
    const valueBytes = cursor.varint();
    cursor.take(keyBytes);
    places.push(readPlace(createCursor(cursor.take(valueBytes))));
  }
  return places;
}

function readPlace(cursor: Cursor): FileRange {
  return { at: cursor.varint(), size: cursor.varint() };
}

/** Decodes Snappy's raw format (google/snappy, format_description.txt): literals, and copies of earlier output. */
function unsnap(bytes: Buffer): Buffer {
  const cursor = createCursor(bytes);
  const out = Buffer.alloc(cursor.varint());
  let at = 0;
  const littleEndian = (length: number) => cursor.take(length).readUIntLE(0, length);
  while (!cursor.isAtEnd()) {
    const tag = cursor.byte();
    if ((tag & 3) === 0) {
      const short = tag >> 2;
      const length = (short < 60 ? short : littleEndian(short - 59)) + 1;
      at += cursor.take(length).copy(out, at);
      continue;
    }
    const isNear = (tag & 3) === 1;
    const length = isNear ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    const offset = isNear ? ((tag >> 5) << 8) | cursor.byte() : littleEndian((tag & 3) === 2 ? 2 : 4);
    if (offset === 0 || offset > at || at + length > out.length) throw new RangeError("a copy from nowhere");
    // Byte by byte: a copy may overlap its own output.
    for (let i = 0; i < length; i += 1, at += 1) out[at] = out[at - offset] ?? 0;
  }
  if (at !== out.length) throw new RangeError("shorter than it says");
  return out;
}
