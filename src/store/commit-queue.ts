import type { Metrics } from "../base/metrics/metrics.ts";
import {
  type Change,
  type CommitTiming,
  type Condition,
  maxKeyBytes,
  type StaleWrite,
  StoreUnavailable,
} from "./contract.ts";
import { KeySamples } from "./key-sample.ts";
import { createWriteDelay } from "./write-delay.ts";

/** A requested commit. */
export interface CommitRequest {
  readonly changes: readonly Change[];
  readonly conditions: readonly Condition[];
}

/** Result for a commit of a group: its revision, or why it was refused. */
export type CommitOutcome = number | StaleWrite;

/** Queues commits while others are being written; queued commits share the next write and its fsync. */
export interface CommitQueue {
  commit(changes: readonly Change[], conditions: readonly Condition[], timing?: CommitTiming): Promise<number>;
  /** Number of commits that are queued or being written. */
  readonly length: number;
  /** Rejects all queued and further commits with this error, until `resume`. */
  stop(reason: StoreUnavailable): void;
  resume(): void;
  /** Resolves when nothing is queued or being written. */
  drained(): Promise<void>;
}

interface CommitQueueOptions {
  readonly metrics: Metrics;
  /**
   * Writes a group durably; the outcomes are in the group's order. No commit of a group depends on changes of another
   * in the same group, so each can be checked against the stored state. Rejects if the fate of the group is unknown.
   */
  readonly write: (group: readonly CommitRequest[]) => Promise<readonly CommitOutcome[]>;
}

/** Limits of a group: a write costs one fsync, however many commits share it, but it must not take long. */
const maxGroupChanges = 16_384;
const maxGroupBytes = 4 * 1024 * 1024;
/** Queue limits for a stalled store. Further commits are refused at once: their callers would time out anyway. */
const maxWaiting = 20_000;
const maxWaitingBytes = 64 * 1024 * 1024;

interface QueuedCommit extends CommitRequest {
  readonly mayWait: boolean;
  readonly bytes: number;
  readonly queuedAt: number;
  readonly resolve: (revision: number) => void;
  readonly reject: (error: Error) => void;
}

export function createCommitQueue({ metrics, write }: CommitQueueOptions): CommitQueue {
  const waiting: QueuedCommit[] = [];
  let waitingBytes = 0;
  let underWay = 0;
  let stopped: StoreUnavailable | undefined;
  let writing: Promise<void> | undefined;
  const writeDelay = createWriteDelay(begin);
  const countWritten = createCommitCount(metrics);

  function takeGroup(): QueuedCommit[] {
    const { count, bytes } = nextGroup(waiting);
    waitingBytes -= bytes;
    const group = waiting.splice(0, count);
    writeDelay.taken(group);
    return group;
  }

  function settle({ commit, outcome }: { readonly commit: QueuedCommit; readonly outcome: CommitOutcome }): void {
    if (typeof outcome !== "number") {
      metrics.storeConflicts.inc();
      commit.reject(outcome);
      return;
    }
    countWritten(commit);
    commit.resolve(outcome);
  }

  async function writeGroup(): Promise<void> {
    const group = takeGroup();
    underWay = group.length;
    metrics.storeWaiting.set(waiting.length + underWay);
    const startedAt = performance.now();
    try {
      const outcomes = await write(group);
      for (const [i, commit] of group.entries()) {
        const outcome = outcomes[i];
        if (outcome === undefined) throw new Error("a commit of a group has no outcome");
        settle({ commit, outcome });
      }
    } catch (cause) {
      const error = new StoreUnavailable("the store could not write", { cause });
      for (const { reject } of group) reject(error);
    }
    underWay = 0;
    metrics.storeWriteSeconds.observe((performance.now() - startedAt) / 1_000);
    metrics.storeWaiting.set(waiting.length);
  }

  async function writeWaiting(): Promise<void> {
    while (waiting.length > 0 && !writeDelay.lasts(waiting.length)) await writeGroup();
    writing = undefined;
  }

  function begin(): void {
    // Deferred by a microtask, so that commits requested together share the write.
    writing ??= Promise.resolve().then(writeWaiting);
  }

  return {
    commit(changes, conditions, { mayWait = false } = {}) {
      if (stopped !== undefined) return Promise.reject(stopped);
      // A string has at most three UTF-8 bytes per UTF-16 unit.
      if (changes.some(({ key }) => key.length * 3 > maxKeyBytes && Buffer.byteLength(key) > maxKeyBytes)) {
        return Promise.reject(new Error(`a key is longer than ${maxKeyBytes} bytes`));
      }
      const bytes = sizeOf(changes);
      if (waiting.length >= maxWaiting || (waiting.length > 0 && waitingBytes + bytes > maxWaitingBytes)) {
        metrics.storeOverruns.inc();
        return Promise.reject(new StoreUnavailable("too many commits are queued; try again later"));
      }
      return new Promise((resolve, reject) => {
        const queued = { changes, conditions, mayWait, bytes, queuedAt: performance.now(), resolve, reject };
        waiting.push(queued);
        waitingBytes += bytes;
        writeDelay.queued(queued);
        begin();
      });
    },
    get length() {
      return waiting.length + underWay;
    },
    stop(reason) {
      stopped = reason;
      waitingBytes = 0;
      const rejected = waiting.splice(0);
      writeDelay.taken(rejected);
      for (const { reject } of rejected) reject(reason);
    },
    resume() {
      stopped = undefined;
    },
    async drained() {
      writeDelay.end();
      if (waiting.length > 0) begin();
      await writing;
    },
  };
}

/** Returns the function that counts a durable commit. */
function createCommitCount(metrics: Metrics): (commit: QueuedCommit) => void {
  const commits = metrics.storeCommits.series({});
  const changesWritten = metrics.storeChanges.series({});
  const seconds = metrics.storeCommitSeconds.series({});
  return ({ changes, queuedAt }) => {
    commits.add();
    changesWritten.add(changes.length);
    seconds.observe((performance.now() - queuedAt) / 1_000);
  };
}

/** Returns how many of the commits, from the first, are written together. */
function nextGroup(waiting: readonly QueuedCommit[]): { readonly count: number; readonly bytes: number } {
  const touched = createTouched();
  let changes = 0;
  let bytes = 0;
  let count = 0;
  let last: QueuedCommit | undefined;
  for (const next of waiting) {
    if (last !== undefined) {
      if (changes + next.changes.length > maxGroupChanges || bytes + next.bytes > maxGroupBytes) break;
      // Only now: a commit that is written by itself is compared with no other.
      touched.add(last);
      if (touched.concerns(next)) break;
    }
    last = next;
    changes += next.changes.length;
    bytes += next.bytes;
    count += 1;
  }
  return { count, bytes };
}

const sizeOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);

/** Keys that a group has changed so far. */
function createTouched() {
  const samples = new KeySamples();
  const commits: CommitRequest[] = [];
  /** The keys of the first `known` commits, once a sample is not enough. */
  const keys = new Set<string>();
  let known = 0;

  function allKeys(): ReadonlySet<string> {
    for (; known < commits.length; known += 1) for (const { key } of commits[known]?.changes ?? []) keys.add(key);
    return keys;
  }

  const isTouched = (key: string): boolean => samples.mayHave(key) && allKeys().has(key);

  function isTouchedIn({ from, to }: { readonly from: string; readonly to: string }): boolean {
    // JavaScript's order differs from that of UTF-8 bytes beyond the BMP, in keys and in bounds. A commit with one of
    // these waits for the next group, at worst needlessly.
    if (beyondBmp.test(from) || beyondBmp.test(to)) return allKeys().size > 0;
    for (const key of allKeys()) if ((key >= from && key < to) || beyondBmp.test(key)) return true;
    return false;
  }

  return {
    concerns({ changes, conditions }: CommitRequest): boolean {
      for (const { key } of changes) if (isTouched(key)) return true;
      for (const condition of conditions) {
        if ("empty" in condition ? isTouchedIn(condition.empty) : isTouched(condition.key)) return true;
      }
      return false;
    },
    add(commit: CommitRequest): void {
      commits.push(commit);
      for (const { key } of commit.changes) samples.add(key);
    },
  };
}

const beyondBmp = /[\ud800-\udfff]/;

/** Returns the revisions that a commit depends on. */
export function expectationsOf({
  changes,
  conditions,
}: CommitRequest): { readonly key: string; readonly expect: number }[] {
  const found: { readonly key: string; readonly expect: number }[] = [];
  for (const { key, expect } of changes) if (expect !== undefined) found.push({ key, expect });
  for (const condition of conditions) if (!("empty" in condition)) found.push(condition);
  return found;
}

/** Returns the ranges that must be empty for a commit. */
export const emptiesOf = ({ conditions }: CommitRequest): { readonly from: string; readonly to: string }[] =>
  conditions.flatMap((condition) => ("empty" in condition ? [condition.empty] : []));
