import type { Entry } from "../contract.ts";

/**
 * LevelDB opens silently even if part of its log is missing, from the middle or the end. So every write adds a ledger
 * line that names the previous revision: at start, the lines must form a chain that ends at the head.
 * `last-revision.ts` detects a missing end.
 */
export interface Ledger {
  /**
   * Returns the line for a write, and the keys of lines that are no longer needed. Call `wrote` once the write is
   * durable.
   */
  next(write: LedgerWrite): { readonly line: Entry; readonly head: Entry; readonly done: readonly string[] };
  wrote(): void;
}

interface LedgerWrite {
  /** The last revision of the write. */
  readonly revision: number;
  readonly bytes: number;
}

/** NUL never begins a caller's key. */
export const headKey = "\0head";
const linePrefix = "\0ledger\0";
export const lineRange = { gte: linePrefix, lt: "\0ledger\x01" };
const lineKey = (revision: number): string => `${linePrefix}${String(revision).padStart(15, "0")}`;
/** Size of a line besides its value: keys, headers and the overhead of the memtable. */
const lineBytes = 150;

/**
 * Only data that is still in logs can be lost: at most two logs of 16 MiB each. Lines are kept for more than that. A
 * large write counts as one log at most, since LevelDB starts the next log after it.
 */
const logBytes = 16 * 1024 * 1024;
const keptBytes = 3 * logBytes;

/** Throws `LedgerBroken`. `lines` are all lines, in order. */
export function readLedger(head: Entry, lines: readonly Entry[]): Ledger {
  const from = readRevision(head.value);
  const kept: { readonly revision: number; readonly bytes: number }[] = [];
  let at = from;
  for (const { value, revision } of lines) {
    // A line that was deleted but reappeared proves nothing.
    if (revision <= from) continue;
    const before = readRevision(value);
    if (before !== at) throw new LedgerBroken(`the commits after revision ${at} up to ${before} are missing`);
    at = revision;
    kept.push({ revision, bytes: Buffer.from(value.buffer, value.byteOffset).readUInt32BE(6) });
  }
  if (at !== head.revision) throw new LedgerBroken(`the commits between revisions ${at} and ${head.revision} disagree`);
  return createLedger({ from, kept, revision: head.revision });
}

/** Data that was written is missing. */
export class LedgerBroken extends Error {
  override readonly name = "LedgerBroken";
}

export const headOf = (revision: number, from: number): Entry => ({
  key: headKey,
  revision,
  value: writeRevision(from),
});

interface LedgerState {
  readonly from: number;
  readonly kept: { readonly revision: number; readonly bytes: number }[];
  readonly revision: number;
}

function createLedger({ from: first, kept, revision: newest }: LedgerState): Ledger {
  let from = first;
  let last = newest;
  let bytes = kept.reduce((sum, line) => sum + line.bytes, 0);
  /**
   * Number of obsolete lines at the start of `kept`: removed in large batches, since removing each would cost the
   * array's length.
   */
  let gone = 0;
  let pending: (() => void) | undefined;

  return {
    next({ revision, bytes: written }) {
      const size = Math.min(written + lineBytes, logBytes);
      const done: string[] = [];
      let newFrom = from;
      let left = bytes + size;
      let drop = gone;
      for (; drop < kept.length; drop += 1) {
        const oldest = kept[drop];
        if (oldest === undefined || left - oldest.bytes < keptBytes) break;
        left -= oldest.bytes;
        newFrom = oldest.revision;
        done.push(lineKey(oldest.revision));
      }
      const value = Buffer.alloc(10);
      value.set(writeRevision(last));
      value.writeUInt32BE(size, 6);
      pending = () => {
        from = newFrom;
        last = revision;
        bytes = left;
        kept.push({ revision, bytes: size });
        gone = drop;
        if (gone > 1_024 && gone * 2 > kept.length) {
          kept.splice(0, gone);
          gone = 0;
        }
      };
      return { line: { key: lineKey(revision), revision, value }, head: headOf(revision, newFrom), done };
    },
    wrote() {
      pending?.();
      pending = undefined;
    },
  };
}

const readRevision = (value: Uint8Array): number =>
  Buffer.from(value.buffer, value.byteOffset, value.byteLength).readUIntBE(0, 6);

function writeRevision(revision: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(revision, 0, 6);
  return bytes;
}
