import { isUtf8 } from "node:buffer";
import { fromBinary } from "@bufbuild/protobuf";
import { BackupEntrySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Entry } from "../contract.ts";

/** Tags of BackupEntry: a field's number and its wire type. */
const tags = { key: 0x0a, value: 0x12, revision: 0x18 } as const;

/**
 * Entries as BackupEntry messages, the length before each. Written by hand, at several times the speed of
 * reflection: everything in a store goes through here. The fields are always there and in this order, so that the
 * same entry is always the same bytes.
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

/** Of one message, without the length before it. */
const sizeOf = ({ keyBytes, value, revision }: Entry & { readonly keyBytes: number }): number =>
  3 + withLength(keyBytes) + withLength(value.length) + varintBytes(revision);

const withLength = (length: number): number => varintBytes(length) + length;

/** What it is, if it is one: a key of a caller's, and a revision that there can be. */
export function decodeEntry(bytes: Uint8Array): (Entry & { readonly keyBytes: Uint8Array }) | undefined {
  const { key: keyBytes, value, revision } = fromBinary(BackupEntrySchema, bytes);
  // Keys that begin with NUL are the backends' own.
  if (keyBytes.length === 0 || keyBytes[0] === 0 || !isUtf8(keyBytes)) return undefined;
  if (revision < 1n || revision > Number.MAX_SAFE_INTEGER) return undefined;
  return { keyBytes, key: Buffer.from(keyBytes).toString(), value, revision: Number(revision) };
}

/** Writes a number as protobuf does, and returns where it ends. */
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

/** The longest that is read: more than anything here needs. */
const maxVarintBytes = 4;

/** Undefined while it is not whole; infinite for one that is longer than any that was written. */
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
