import { isUtf8 } from "node:buffer";
import { fromBinary } from "@bufbuild/protobuf";
import { BackupEntrySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Entry } from "../contract.ts";

/** Tags of BackupEntry: field number and wire type. */
const tags = { key: 0x0a, value: 0x12, revision: 0x18 } as const;

/**
 * Encodes entries as BackupEntry messages, each preceded by its length. Hand-written, since this is several times
 * faster than reflection and every entry of a store passes through here. All fields are always written, in this order,
 * so that equal entries have equal bytes.
 */
export function encodeEntries(page: readonly Entry[]): Buffer {
  const sized = page.map((entry) => ({ ...entry, keyBytes: Buffer.byteLength(entry.key) }));
  const bytes = Buffer.allocUnsafe(sized.reduce((sum, entry) => sum + withLength(sizeOf(entry)), 0));
  let at = 0;
  for (const entry of sized) {
    const { key, value, revision, keyBytes } = entry;
    at = writeVarint(bytes, sizeOf(entry), at);
    bytes[at] = tags.key;
    at = writeVarint(bytes, keyBytes, at + 1);
    at += bytes.write(key, at);
    bytes[at] = tags.value;
    at = writeVarint(bytes, value.length, at + 1);
    bytes.set(value, at);
    at += value.length;
    bytes[at] = tags.revision;
    at = writeVarint(bytes, revision, at + 1);
  }
  return bytes;
}

/** Returns the size of a message, without the preceding length. */
const sizeOf = ({ keyBytes, value, revision }: Entry & { readonly keyBytes: number }): number =>
  3 + withLength(keyBytes) + withLength(value.length) + varintBytes(revision);

const withLength = (length: number): number => varintBytes(length) + length;

/** Decodes an entry; undefined unless it has a valid caller's key and a valid revision. */
export function decodeEntry(bytes: Uint8Array): (Entry & { readonly keyBytes: Uint8Array }) | undefined {
  const { key: keyBytes, value, revision } = fromBinary(BackupEntrySchema, bytes);
  // Keys that begin with NUL belong to the backends.
  if (keyBytes.length === 0 || keyBytes[0] === 0 || !isUtf8(keyBytes)) return undefined;
  if (revision < 1n || revision > Number.MAX_SAFE_INTEGER) return undefined;
  return { keyBytes, key: Buffer.from(keyBytes).toString(), value, revision: Number(revision) };
}

/** Writes a protobuf varint, and returns its end. */
export function writeVarint(bytes: Uint8Array, value: number, at: number): number {
  let rest = value;
  let end = at;
  for (; rest >= 128; end += 1) {
    bytes[end] = (rest % 128) + 128;
    rest = Math.floor(rest / 128);
  }
  bytes[end] = rest;
  return end + 1;
}

export function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes += 1;
  return bytes;
}

/** Maximum length when reading: more than any value here needs. */
const maxVarintBytes = 4;

/** Returns undefined while the varint is incomplete; infinity if it is longer than any that was written. */
export function readVarint(bytes: Uint8Array, from: number): number | undefined {
  let value = 0;
  for (let i = 0; i < maxVarintBytes; i += 1) {
    const byte = bytes[from + i];
    if (byte === undefined) return undefined;
    value += (byte & 127) * 128 ** i;
    if (byte < 128) return value;
  }
  return Number.POSITIVE_INFINITY;
}
