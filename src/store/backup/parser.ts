import { createHash } from "node:crypto";
import { fromBinary } from "@bufbuild/protobuf";
import { type BackupManifest, BackupManifestSchema } from "../../gen/latchkey/v1/store_pb.ts";
import type { Entry } from "../contract.ts";
import { decodeEntry, readVarint, varintBytes } from "./entry.ts";
import { BackupDamaged, damaged, firstLine, firstWords, hashBytes, maxPartBytes, sha256 } from "./format.ts";

/** Parses a backup as it arrives. Throws `BackupDamaged`. */
export interface BackupParser {
  /** Returns the entries that are now complete. */
  add(chunk: Uint8Array): readonly Entry[];
  end(): BackupManifest;
}

/** Parses as much as possible and returns the number of bytes used; undefined if it needs more. */
type Section = (bytes: Buffer) => number | undefined;

export function createBackupParser(): BackupParser {
  const entries = createEntryCheck();
  let held: Uint8Array[] = [];
  let size = 0;
  /** Bytes needed for the next step: until then, input is only buffered. */
  let wanted = firstLine.length;
  let manifestBytes: Uint8Array = Buffer.alloc(0);
  let manifest: BackupManifest | undefined;
  let section: Section = readFirstLine;

  function readFirstLine(bytes: Buffer): number | undefined {
    if (bytes.length < firstLine.length) return undefined;
    const line = bytes.subarray(0, firstLine.length);
    if (!line.subarray(0, firstWords.length).equals(firstWords))
      throw new BackupDamaged("this is not a Latchkey backup");
    if (!line.equals(firstLine))
      throw new BackupDamaged("this version of Latchkey does not support the backup's format");
    section = readEntries;
    return firstLine.length;
  }

  /** Parses all complete entries. */
  function readEntries(bytes: Buffer): number | undefined {
    let at = 0;
    for (let part = partIn(bytes, at); part !== undefined; part = partIn(bytes, at)) {
      if (part.length === 0) {
        entries.hash(bytes.subarray(0, at));
        section = readManifest;
        return at + 1;
      }
      entries.read(part);
      at += varintBytes(part.length) + part.length;
    }
    entries.hash(bytes.subarray(0, at));
    return at === 0 ? undefined : at;
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
    if (!sha256(manifestBytes).equals(bytes.subarray(0, hashBytes))) {
      throw damaged("its manifest does not match the manifest's checksum");
    }
    manifest = unlessUnreadable(() => fromBinary(BackupManifestSchema, manifestBytes));
    if (manifest === undefined) throw damaged("its manifest cannot be read");
    entries.requireAll(manifest);
    section = requireEnd;
    return hashBytes;
  }

  /** Returns a part without its length; undefined until the part is complete. */
  function partIn(bytes: Buffer, at: number): Buffer | undefined {
    const length = readVarint(bytes, at);
    if (length === undefined) return undefined;
    if (length > maxPartBytes) throw damaged(`entry ${entries.count + 1} cannot be read`);
    const from = at + varintBytes(length);
    if (bytes.length >= from + length) return bytes.subarray(from, from + length);
    wanted = from + length - at;
    return undefined;
  }

  return {
    add(chunk) {
      held.push(chunk);
      size += chunk.length;
      if (size < wanted) return [];
      let bytes = Buffer.concat(held);
      wanted = 0;
      for (let used = section(bytes); used !== undefined; used = section(bytes)) bytes = bytes.subarray(used);
      held = [bytes];
      size = bytes.length;
      return entries.takePage();
    },
    end() {
      if (manifest === undefined) throw damaged(`it ends too early, after ${entries.count} entries`);
      return manifest;
    },
  };
}

function requireEnd(bytes: Buffer): undefined {
  if (bytes.length > 0) throw damaged("data follows its end");
}

/** Decodes entries, and checks their order, and in the end that all of them are there. */
function createEntryCheck() {
  const hash = createHash("sha256");
  let page: Entry[] = [];
  let count = 0;
  let lastKey: Uint8Array = Buffer.alloc(0);
  let newest = 0;
  return {
    get count() {
      return count;
    },
    hash(bytes: Buffer): void {
      hash.update(bytes);
    },
    read(bytes: Buffer): void {
      const entry = unlessUnreadable(() => decodeEntry(bytes));
      if (entry === undefined) throw damaged(`entry ${count + 1} cannot be read`);
      const { keyBytes, ...read } = entry;
      if (Buffer.compare(lastKey, keyBytes) >= 0) throw damaged(`entry ${count + 1} is out of order`);
      lastKey = keyBytes;
      count += 1;
      newest = Math.max(newest, read.revision);
      page.push(read);
    },
    takePage(): readonly Entry[] {
      const taken = page;
      page = [];
      return taken;
    },
    requireAll(manifest: BackupManifest): void {
      if (manifest.count !== BigInt(count)) throw damaged(`it contains ${count} of ${manifest.count} entries`);
      if (!hash.digest().equals(manifest.sha256)) throw damaged("its entries do not match their checksum");
      if (manifest.revision < newest) {
        throw damaged(`it contains an entry that is newer than its revision ${manifest.revision}`);
      }
    },
  };
}

function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    /* Any parse error means that the bytes are not what was written. */
    return undefined;
  }
}
