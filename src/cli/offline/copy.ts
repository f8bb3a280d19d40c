import type { BackupManifest } from "../../gen/latchkey/v1/store_pb.ts";
import { type ContentDigest, createContentDigest } from "../../store/backup/backup.ts";
import { type Backend, type Entry, type SnapshotContent, StoreUsed } from "../../store/contract.ts";
import type { Phases } from "../terminal/phases.ts";
import type { ProgressDisplay } from "../terminal/progress.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import type { NamedStore } from "./location.ts";

/** Number of entries, and their SHA-256. */
export type ContentSummary = Pick<BackupManifest, "count" | "sha256">;

interface StoreCopy {
  readonly content: SnapshotContent;
  /** Number of entries, if known. */
  readonly total: number | undefined;
  readonly to: NamedStore;
  readonly target: Backend;
  readonly terminal: Terminal;
  readonly phases: Phases;
}

/** Fills an unused store, reads the copy again and compares. Returns what was copied. */
export async function copyInto({ content, total, to, target, terminal, phases }: StoreCopy): Promise<ContentSummary> {
  const { revision, pages } = content;
  const { signal } = terminal;
  const copied = await phases(`copying to ${to.name}`, async (progress) => {
    const digest = createContentDigest();
    try {
      await target.fill({ revision, pages: digested({ pages, digest, total, progress, signal }) });
    } catch (error) {
      if (!(error instanceof StoreUsed)) throw error;
      throw new UsageMistake(`${to.name} is not empty, or was used before: name a store that was never used`, {
        cause: error,
      });
    }
    return digest.result();
  });
  const found = await phases(`reading ${to.name} again`, (progress) =>
    digestOf(target, { total: Number(copied.count), progress, signal }),
  );
  if (isSame(found, copied)) return copied;
  throw new Error(`${to.name} differs from what was written to it: it has ${found.count} of ${copied.count} entries`);
}

interface CopyReading {
  readonly total: number | undefined;
  readonly progress: ProgressDisplay;
  readonly signal: AbortSignal;
}

interface DigestRequest extends CopyReading {
  readonly pages: AsyncIterable<readonly Entry[]>;
  readonly digest: ContentDigest;
}

/** Counts and shows the entries that pass, until interrupted. */
async function* digested({ pages, digest, total, progress, signal }: DigestRequest): AsyncGenerator<readonly Entry[]> {
  let items = 0;
  for await (const page of pages) {
    signal.throwIfAborted();
    digest.add(page);
    items += page.length;
    progress.update({ done: items, total, items });
    yield page;
  }
}

async function digestOf(store: Backend, reading: CopyReading): Promise<ContentSummary> {
  const digest = createContentDigest();
  const snapshot = await store.snapshot();
  try {
    for await (const _ of digested({ ...reading, pages: snapshot.pages(), digest }));
  } finally {
    await snapshot.close();
  }
  return digest.result();
}

export const isSame = (one: ContentSummary, other: ContentSummary): boolean =>
  one.count === other.count && Buffer.from(one.sha256).equals(other.sha256);
