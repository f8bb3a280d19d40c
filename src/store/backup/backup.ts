import { createHash } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { version } from "../../base/version.ts";
import { type BackupManifest, BackupManifestSchema } from "../../gen/latchkey/v1/store_pb.ts";
import type { Entry, Snapshot, StoreStatus } from "../contract.ts";
import { dataKeyIn } from "../sealed/data-key-wrapping.ts";
import { encodeEntries, varintBytes, writeVarint } from "./entry.ts";
import { firstLine, sha256 } from "./format.ts";
import { createBackupParser } from "./parser.ts";

/** Size of a socket write. */
const chunkBytes = 64 * 1024;

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
  const parser = createBackupParser();
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
