import type { Entry } from "../contract.ts";

/**
 * LevelDB opens without a word when a piece of its log is gone, from the middle or from the end. So every write
 * brings a line of the ledger that names the revision before it: at start the lines must make a chain that ends
 * at the head. That the end itself is not missing, the file of `level-tail.ts` knows.
 */
export interface Ledger {
  /** The line for a write, and the keys of lines that are no longer needed. Call `wrote` once it is durable. */
  next(write: LedgerWrite): { readonly line: Entry; readonly head: Entry; readonly done: readonly string[] };
  wrote(): void;
}

interface LedgerWrite {
  /** The last revision of the write. */
  readonly revision: number;
  readonly bytes: number;
}

/** NUL begins no key of ours. */
export const headKey = "\0head";
const linePrefix = "\0ledger\0";
export const lineRange = { gte: linePrefix, lt: "\0ledger\x01" };
const lineKey = (revision: number): string => `${linePrefix}${String(revision).padStart(15, "0")}`;
/** A line besides its value: keys, headers and what the memtable adds. */
const lineBytes = 150;

/**
 * What can still be lost is what lies in logs alone: at most two of them, of 16 MiB each. Lines are kept for more
 * than that; one large write counts no more than a log, after which LevelDB begins the next.
 */
const logBytes = 16 * 1024 * 1024;
const keptBytes = 3 * logBytes;

/** Throws `LedgerBroken`. `lines` are all that there are, in order. */
export function readLedger(head: Entry, lines: readonly Entry[]): Ledger {
  const from = readRevision(head.value);
  const kept: { readonly revision: number; readonly bytes: number }[] = [];
  let at = from;
  for (const { value, revision } of lines) {
    // What should have been deleted and came back proves nothing either way.
    if (revision <= from) continue;
    const before = readRevision(value);
    if (before !== at) throw new LedgerBroken(`the commits after revision ${at} up to ${before} are missing`);
    at = revision;
    kept.push({ revision, bytes: Buffer.from(value.buffer, value.byteOffset).readUInt32BE(6) });
  }
  if (at !== head.revision) throw new LedgerBroken(`the commits between revisions ${at} and ${head.revision} disagree`);
  return createLedger({ from, kept, revision: head.revision });
}

/** Something that was written is not there any more. */
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
  /** How many of `kept` are done with: cut off in large pieces, as one by one would cost the length each time. */
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
