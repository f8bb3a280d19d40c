import { createHash } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { version } from "../../base/version.ts";
import { type BackupManifest, BackupManifestSchema } from "../../gen/latchkey/v1/store_pb.ts";
import type { Entry, Snapshot, StoreStatus } from "../contract.ts";
import { dataKeyIn } from "../sealed/data-key-wrapping.ts";
import { decodeEntry, encodeEntries, readVarint, varintBytes, writeVarint } from "./entry.ts";

/*
 * A backup is a byte stream that proves its own integrity:
 *
 *   a line with its name and format
 *   every entry as a BackupEntry, preceded by its length, in key order
 *   a length of 0
 *   the BackupManifest, preceded by its length: the number of entries and their SHA-256
 *   the SHA-256 of the manifest
 *
 * Every bit is covered by a check. Encrypted values stay encrypted, so a backup is as secret as the store.
 */

const firstLine = Buffer.from("latchkey backup 1\n");
const firstWords = firstLine.subarray(0, -2);
const hashBytes = 32;
/** Larger than anything that any API can write; a larger length is treated as damage. */
const maxPartBytes = 64 * 1024 * 1024;
/** Size of a socket write. */
const chunkBytes = 64 * 1024;

/** The input is not a backup, or differs from what was written. */
export class BackupDamaged extends Error {
  override readonly name = "BackupDamaged";
}

export type BackupPiece =
  | { readonly case: "chunk"; readonly value: Uint8Array }
  | { readonly case: "manifest"; readonly value: BackupManifest };

interface About extends Pick<StoreStatus, "storeId" | "format"> {
  readonly createdMs: number;
}

/** Writes a snapshot as a backup, at the reader's pace: chunks, then the manifest, which the chunks contain as well. */
export async function* writeBackup(snapshot: Snapshot, about: About): AsyncGenerator<BackupPiece> {
  const digest = createContentDigest();
  const keyIds = new Set<string>();
  const chunker = createChunker();
  chunker.add(firstLine);
  for await (const page of snapshot.pages()) {
    for (const entry of page) {
      const dataKey = dataKeyIn(entry);
      if (dataKey !== undefined) keyIds.add(dataKey.sealKeyId);
    }
    chunker.add(digest.add(page));
    for (const value of chunker.whole()) yield { case: "chunk", value };
  }
  const { storeId, format, createdMs } = about;
  const manifest = create(BackupManifestSchema, {
    ...digest.result(),
    storeId,
    format,
    revision: BigInt(snapshot.revision),
    createdAt: timestampFromMs(createdMs),
    keyIds: [...keyIds].sort(),
    version,
  });
  const bytes = toBinary(BackupManifestSchema, manifest);
  const lengths = Buffer.alloc(1 + varintBytes(bytes.length));
  writeVarint(lengths, bytes.length, 1);
  chunker.add(Buffer.concat([lengths, bytes, sha256(bytes)]));
  for (const value of chunker.rest()) yield { case: "chunk", value };
  yield { case: "manifest", value: manifest };
}

/**
 * Reads the entries of a backup, and finally its manifest. Throws `BackupDamaged`; most damage is detected only at the
 * end, so entries are not verified until then.
 */
export async function* readBackup(source: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Entry[], BackupManifest> {
  const parser = createParser();
  for await (const chunk of source) {
    const page = parser.add(chunk);
    if (page.length > 0) yield page;
  }
  return parser.end();
}

/** Reads a whole backup. Throws `BackupDamaged` unless it is complete and intact. */
export async function verifyBackup(
  source: AsyncIterable<Uint8Array>,
  onPage: (page: readonly Entry[]) => void = () => {},
): Promise<BackupManifest> {
  const pages = readBackup(source);
  for (;;) {
    const { done, value } = await pages.next();
    if (done) return value;
    onPage(value);
  }
}

/** Tells whether two stores have the same contents, regardless of where they are stored. */
export interface ContentDigest {
  /** Adds entries, in order, and returns their bytes as a backup holds them. */
  add(page: readonly Entry[]): Buffer;
  result(): Pick<BackupManifest, "count" | "sha256">;
}

export function createContentDigest(): ContentDigest {
  const hash = createHash("sha256");
  let count = 0;
  return {
    add(page) {
      const bytes = encodeEntries(page);
      hash.update(bytes);
      count += page.length;
      return bytes;
    },
    result: () => ({ count: BigInt(count), sha256: Uint8Array.from(hash.copy().digest()) }),
  };
}

/** Collects pieces of any size, and returns them in chunks of equal size. */
function createChunker() {
  let held: Buffer[] = [];
  let size = 0;

  function* take(end: number): Iterable<Buffer> {
    const bytes = Buffer.concat(held);
    held = [bytes.subarray(end)];
    size -= end;
    for (let at = 0; at < end; at += chunkBytes) yield bytes.subarray(at, Math.min(at + chunkBytes, end));
  }

  return {
    add(bytes: Buffer): void {
      held.push(bytes);
      size += bytes.length;
    },
    whole: () => take(size - (size % chunkBytes)),
    rest: () => take(size),
  };
}

/** Parses a backup as it arrives. */
function createParser() {
  const hash = createHash("sha256");
  let held: Uint8Array[] = [];
  let size = 0;
  /** Bytes needed for the next step: until then, input is only buffered. */
  let wanted = firstLine.length;
  let page: Entry[] = [];
  let count = 0;
  let lastKey: Uint8Array = Buffer.alloc(0);
  let newest = 0;
  let manifestBytes: Uint8Array = Buffer.alloc(0);
  let manifest: BackupManifest | undefined;
  /** Parses as much as possible and returns the number of bytes used; undefined if it needs more. */
  let section: (bytes: Buffer) => number | undefined = readFirstLine;

  const damaged = (what: string) => new BackupDamaged(`the backup is damaged: ${what}`);

  function readFirstLine(bytes: Buffer): number | undefined {
    if (bytes.length < firstLine.length) return undefined;
    const line = bytes.subarray(0, firstLine.length);
    if (!line.subarray(0, firstWords.length).equals(firstWords))
      throw new BackupDamaged("this is no backup of latchkey's");
    if (!line.equals(firstLine)) throw new BackupDamaged("the backup is of a format that this latchkey does not know");
    section = readEntries;
    return firstLine.length;
  }

  /** Parses all complete entries. */
  function readEntries(bytes: Buffer): number | undefined {
    let at = 0;
    for (let part = partIn(bytes, at); part !== undefined; part = partIn(bytes, at)) {
      if (part.length === 0) {
        hash.update(bytes.subarray(0, at));
        section = readManifest;
        return at + 1;
      }
      readEntry(part);
      at += varintBytes(part.length) + part.length;
    }
    hash.update(bytes.subarray(0, at));
    return at === 0 ? undefined : at;
  }

  function readEntry(bytes: Buffer): void {
    const entry = unlessUnreadable(() => decodeEntry(bytes));
    if (entry === undefined) throw damaged(`entry ${count + 1} cannot be read`);
    const { keyBytes, ...read } = entry;
    if (Buffer.compare(lastKey, keyBytes) >= 0) throw damaged(`entry ${count + 1} is not in its place`);
    lastKey = keyBytes;
    count += 1;
    newest = Math.max(newest, read.revision);
    page.push(read);
  }

  function readManifest(bytes: Buffer): number | undefined {
    const part = partIn(bytes, 0);
    if (part === undefined) return undefined;
    manifestBytes = Buffer.from(part);
    section = readManifestHash;
    return varintBytes(part.length) + part.length;
  }

  function readManifestHash(bytes: Buffer): number | undefined {
    if (bytes.length < hashBytes) return undefined;
    if (!sha256(manifestBytes).equals(bytes.subarray(0, hashBytes)))
      throw damaged("its manifest is not what was written");
    manifest = unlessUnreadable(() => fromBinary(BackupManifestSchema, manifestBytes));
    if (manifest === undefined) throw damaged("its manifest cannot be read");
    if (manifest.count !== BigInt(count)) throw damaged(`it holds ${count} of ${manifest.count} entries`);
    if (!hash.digest().equals(manifest.sha256)) throw damaged("its entries are not what was written");
    if (manifest.revision < newest) throw damaged(`it holds what is newer than its revision ${manifest.revision}`);
    section = readNothing;
    return hashBytes;
  }

  function readNothing(bytes: Buffer): undefined {
    if (bytes.length > 0) throw damaged("something follows its end");
  }

  /** Returns a part without its length; undefined until the part is complete. */
  function partIn(bytes: Buffer, at: number): Buffer | undefined {
    const length = readVarint(bytes, at);
    if (length === undefined) return undefined;
    if (length > maxPartBytes) throw damaged(`entry ${count + 1} cannot be read`);
    const from = at + varintBytes(length);
    if (bytes.length >= from + length) return bytes.subarray(from, from + length);
    wanted = from + length - at;
    return undefined;
  }

  return {
    /** Returns the entries that are now complete. */
    add(chunk: Uint8Array): readonly Entry[] {
      held.push(chunk);
      size += chunk.length;
      if (size < wanted) return [];
      let bytes = Buffer.concat(held);
      wanted = 0;
      for (let used = section(bytes); used !== undefined; used = section(bytes)) bytes = bytes.subarray(used);
      held = [bytes];
      size = bytes.length;
      const read = page;
      page = [];
      return read;
    },
    end(): BackupManifest {
      if (manifest === undefined) throw damaged(`it ends too early, after ${count} entries`);
      return manifest;
    },
  };
}

const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();

function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    /* Any parse error means that the bytes are not what was written. */
    return undefined;
  }
}
