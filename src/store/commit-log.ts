import type { Commit } from "./contract.ts";

/**
 * Commits, kept as bytes. As objects they would be promoted to the old generation and die a second or two later, the
 * worst case for a garbage collector: at 2,000 webhooks/s, a full collection of 10 to 30 ms every 3 s.
 */
export interface CommitLog {
  /** Revision of the last evicted commit; undefined if none was evicted. */
  readonly forgotten: number | undefined;
  add(commit: Commit): void;
  /** Decodes commits in order, as copies that share nothing with the log. Read them before adding another commit. */
  after(revision: number): Generator<Commit>;
  clear(): void;
}

interface Chunk {
  readonly bytes: Buffer;
  end: number;
  /** Revision of the chunk's last commit. */
  revision: number;
}

/** Fraction of the log that is evicted at once. */
const chunkShare = 1 / 16;
// Commit layout: total length, revision, number of changes. Change layout: key length, value length plus one.
const revisionAt = 4;
const countAt = 10;
const headBytes = 14;
const changeBytes = 8;
/** A UTF-16 unit of a string takes at most three bytes: an upper bound that avoids measuring. */
const mostUnitBytes = 3;

export function createCommitLog(maxBytes: number): CommitLog {
  const chunkBytes = Math.ceil(maxBytes * chunkShare);
  const chunks: Chunk[] = [];
  let held = 0;
  let forgotten: number | undefined;

  /** Reuses an evicted chunk's buffer: freed buffers would trigger garbage collection. */
  function makeRoom(bytes: number): Chunk {
    let spare: Buffer | undefined;
    while (chunks.length > 0 && held + Math.max(chunkBytes, bytes) > maxBytes) {
      const [oldest] = chunks.splice(0, 1);
      if (oldest === undefined) break;
      held -= oldest.bytes.length;
      forgotten = oldest.revision;
      if (oldest.bytes.length === chunkBytes) spare = oldest.bytes;
    }
    const made = bytes <= chunkBytes ? (spare ?? Buffer.allocUnsafeSlow(chunkBytes)) : Buffer.allocUnsafeSlow(bytes);
    const chunk = { bytes: made, end: 0, revision: 0 };
    held += made.length;
    chunks.push(chunk);
    return chunk;
  }

  function letGo(upTo: number | undefined): void {
    chunks.length = 0;
    held = 0;
    forgotten = upTo;
  }

  return {
    get forgotten() {
      return forgotten;
    },
    add(commit) {
      let chunk = chunks.at(-1);
      if (chunk === undefined || chunk.end + mostBytesOf(commit) > chunk.bytes.length) {
        const bytes = bytesOf(commit);
        if (bytes > maxBytes) {
          letGo(commit.revision);
          return;
        }
        chunk = makeRoom(bytes);
      }
      chunk.end = write(chunk, commit);
      chunk.revision = commit.revision;
    },
    *after(revision) {
      for (const { bytes, end, revision: last } of chunks) {
        if (last <= revision) continue;
        for (let at = 0; at < end; at += bytes.readUInt32BE(at)) {
          if (bytes.readUIntBE(at + revisionAt, 6) > revision) yield read(bytes, at);
        }
      }
    },
    clear: () => letGo(undefined),
  };
}

function mostBytesOf({ changes }: Commit): number {
  let most = headBytes;
  for (const { key, value } of changes) most += changeBytes + key.length * mostUnitBytes + (value?.length ?? 0);
  return most;
}

function bytesOf({ changes }: Commit): number {
  let bytes = headBytes;
  for (const { key, value } of changes) bytes += changeBytes + Buffer.byteLength(key) + (value?.length ?? 0);
  return bytes;
}

function write({ bytes, end: from }: Chunk, { revision, changes }: Commit): number {
  bytes.writeUIntBE(revision, from + revisionAt, 6);
  bytes.writeUInt32BE(changes.length, from + countAt);
  let at = from + headBytes;
  for (const { key, value } of changes) {
    const keyAt = at + changeBytes;
    const keyBytes = bytes.write(key, keyAt);
    bytes.writeUInt32BE(keyBytes, at);
    bytes.writeUInt32BE(value === undefined ? 0 : value.length + 1, at + 4);
    at = keyAt + keyBytes;
    if (value === undefined) continue;
    bytes.set(value, at);
    at += value.length;
  }
  bytes.writeUInt32BE(at - from, from);
  return at;
}

function read(bytes: Buffer, from: number): Commit {
  let at = from + headBytes;
  const changes = Array.from({ length: bytes.readUInt32BE(from + countAt) }, () => {
    const keyAt = at + changeBytes;
    const valueAt = keyAt + bytes.readUInt32BE(at);
    const valueBytes = bytes.readUInt32BE(at + 4) - 1;
    at = Math.max(valueAt, valueAt + valueBytes);
    const key = bytes.toString("utf8", keyAt, valueAt);
    return { key, value: valueBytes < 0 ? undefined : new Uint8Array(bytes.subarray(valueAt, at)) };
  });
  return { revision: bytes.readUIntBE(from + revisionAt, 6), changes };
}
