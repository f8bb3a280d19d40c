import type { Commit } from "./contract.ts";

/**
 * Commits, in bytes. As objects they would die old: each outlives the young generation and goes a second or two later,
 * which is what a collector is worst at. At 2,000 webhooks a second it was a full collection every three seconds, of 10
 * to 30 ms.
 */
export interface CommitLog {
  /** Of the commit that was let go of last; undefined: none was. */
  readonly forgotten: number | undefined;
  add(commit: Commit): void;
  /** In their order, and made anew: nothing of them is shared with what is kept. To be read before anything is added. */
  after(revision: number): Generator<Commit>;
  clear(): void;
}

interface Chunk {
  readonly bytes: Buffer;
  end: number;
  /** Of its last commit. */
  revision: number;
}

/** What is let go of at once, of all that is kept. */
const chunkShare = 1 / 16;
// A commit: its own length, its revision, how many changes; a change: how long the key is, and one more than the value.
const revisionAt = 4;
const countAt = 10;
const headBytes = 14;
const changeBytes = 8;
/** A unit of a string is three bytes at most: enough to know that there is room. */
const mostUnitBytes = 3;

export function createCommitLog(maxBytes: number): CommitLog {
  const chunkBytes = Math.ceil(maxBytes * chunkShare);
  const chunks: Chunk[] = [];
  let held = 0;
  let forgotten: number | undefined;

  /** Of those that are let go of one is used again: they would be garbage of a kind that hurries the collector. */
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
