import { crc32 } from "node:zlib";
import { type Entry, StoreDamaged } from "../contract.ts";

/**
 * Envelope of a value in LevelDB: the format, the revision of its last change, and a checksum of both, the key and the
 * value. LevelDB itself verifies no block that it reads (`verify_checksums` is off and cannot be turned on).
 */
const format = 2;
const revisionAt = 1;
const checksumAt = 7;
export const headerBytes = 11;

/** The format before checksums. */
const firstFormat = 1;
const firstHeaderBytes = 7;

export function encode({ key, value, revision }: Entry): Uint8Array {
  const bytes = Buffer.allocUnsafe(headerBytes + value.length);
  write(bytes, { key, value, revision });
  return bytes;
}

/** Encodes values that are copied before the next one is encoded: most of them need no memory. */
export function encodeInPassing(entry: Entry): Uint8Array {
  const length = headerBytes + entry.value.length;
  if (length > passing.length) return encode(entry);
  write(passing, entry);
  const view = passingViews[length] ?? passing.subarray(0, length);
  passingViews[length] = view;
  return view;
}

const passing = Buffer.allocUnsafeSlow(1_024);
const passingViews: (Uint8Array | undefined)[] = Array.from({ length: passing.length + 1 });

function write(bytes: Buffer, { key, value, revision }: Entry): void {
  bytes[0] = format;
  bytes.writeUIntBE(revision, revisionAt, 6);
  bytes.set(value, headerBytes);
  bytes.writeUInt32BE(crc32(value, crc32(key, headOf(revision, bytes))), checksumAt);
}

/** The values of a commit begin alike. */
let lastHead = { revision: -1, checksum: 0 };
function headOf(revision: number, bytes: Buffer): number {
  if (lastHead.revision !== revision) lastHead = { revision, checksum: crc32(bytes.subarray(0, checksumAt)) };
  return lastHead.checksum;
}

/** Throws `StoreDamaged`. */
export function decode(key: string, bytes: Uint8Array): Entry {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.length < headerBytes || view[0] !== format || view.readUInt32BE(checksumAt) !== checksum(key, view)) {
    throw new StoreDamaged(key);
  }
  return { key, value: bytes.subarray(headerBytes), revision: view.readUIntBE(revisionAt, 6) };
}

/** Adds a checksum to a value of the first format; undefined if the value already has one. */
export function upgraded(key: string, bytes: Uint8Array): Uint8Array | undefined {
  if (bytes[0] === format) return undefined;
  if (bytes[0] !== firstFormat || bytes.length < firstHeaderBytes) throw new StoreDamaged(key);
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return encode({ key, value: bytes.subarray(firstHeaderBytes), revision: view.readUIntBE(revisionAt, 6) });
}

export const isOfFirstFormat = (bytes: Uint8Array): boolean => bytes[0] === firstFormat;

const checksum = (key: string, bytes: Buffer): number =>
  crc32(bytes.subarray(headerBytes), crc32(key, crc32(bytes.subarray(0, checksumAt))));
