import { type CommitRequest, emptiesOf, expectationsOf } from "../commit-queue.ts";
import { type Change, type Commit, StaleWrite, StoreDamaged } from "../contract.ts";
import { createRecentRevisions } from "../recent-revisions.ts";
import type { AbsentKeys } from "./absent-keys.ts";
import type { CheckedDatabase } from "./checked-database.ts";
import type { Database } from "./database.ts";
import { decode } from "./frame.ts";

/** Decides which commits of a group are accepted, by what is stored. */
export interface CommitCheck {
  /**
   * Checks each commit against the stored state: no commit of a group depends on another commit of the group. Returns
   * the accepted commits with their revisions, and the refusals, in the order of the group.
   */
  check(group: readonly CommitRequest[]): Promise<readonly (AcceptedCommit | StaleWrite)[]>;
  /** The commits were written: caches their revisions. */
  wrote(commits: readonly AcceptedCommit[]): void;
  /** Clears the cache after a write with an unknown outcome. */
  clear(): void;
}

/** A commit that passed all checks, with its changes. */
export interface AcceptedCommit extends Commit {
  readonly changes: readonly Change[];
}

/**
 * Up to this many revisions are read synchronously, in 1 to 3 µs each: they are in memory, or a filter in memory rules
 * them out, and a caller that changes a key on disk has just read it. Reading them in a thread costs each commit a tick
 * of the event loop, and ticks are long under load.
 */
const maxSyncReads = 256;

interface ExpectedRevision {
  readonly key: string;
  readonly expect: number;
  /** The stored revision; undefined: not read yet. */
  current: number | undefined;
}

interface CommitCheckOptions {
  readonly database: Pick<CheckedDatabase, "db" | "revision">;
  readonly absent: AbsentKeys;
}

export function createCommitCheck({ database, absent }: CommitCheckOptions): CommitCheck {
  const recent = createRecentRevisions();
  /** The revision after the last accepted commit. */
  let expected = database.revision;

  async function readRevisions(keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const { db } = database;
    const values = keys.length <= maxSyncReads ? keys.map((key) => db.getSync(key)) : await db.getMany([...keys]);
    const revisions = new Map<string, number>();
    for (const [i, key] of keys.entries()) {
      const value = values[i];
      revisions.set(key, value === undefined ? 0 : revisionOf(key, value));
      if (value === undefined) absent.noteMiss(key);
    }
    return revisions;
  }

  /** Returns what each commit expects, with the current revisions. */
  async function expectationsIn(group: readonly CommitRequest[]): Promise<readonly (readonly ExpectedRevision[])[]> {
    const unknown = new Set<string>();
    const all = group.map((request) =>
      expectationsOf(request).map(({ key, expect }): ExpectedRevision => {
        const current = recent.of(key) ?? (absent.isAbsent(key) ? 0 : undefined);
        if (current === undefined) unknown.add(key);
        return { key, expect, current };
      }),
    );
    if (unknown.size === 0) return all;
    const read = await readRevisions([...unknown]);
    for (const expectations of all) for (const one of expectations) one.current ??= read.get(one.key);
    return all;
  }

  return {
    async check(group) {
      // The last write failed, or the store was filled since.
      if (database.revision !== expected) absent.clear();
      const expectations = await expectationsIn(group);
      const checked: (AcceptedCommit | StaleWrite)[] = [];
      let next = database.revision;
      for (const [i, request] of group.entries()) {
        const stale = expectations[i]?.find(({ expect, current }) => current !== expect);
        const empties = stale === undefined && request.conditions.length > 0 ? emptiesOf(request) : [];
        const key = stale?.key ?? (empties.length === 0 ? undefined : await firstKeyIn(database.db, empties));
        if (key !== undefined) {
          const found = expectations[i]?.find((one) => one.key === key);
          checked.push(new StaleWrite({ key, current: found?.current ?? database.revision }));
        } else {
          next += 1;
          absent.willWrite(request.changes);
          checked.push({ revision: next, changes: request.changes });
        }
      }
      expected = next;
      return checked;
    },
    wrote(commits) {
      for (const { revision, changes } of commits) recent.changed(changes, revision);
    },
    clear() {
      recent.clear();
      absent.clear();
    },
  };
}

/** Returns a key in a range that must be empty; undefined if all ranges are. */
async function firstKeyIn(db: Database, empties: ReturnType<typeof emptiesOf>): Promise<string | undefined> {
  for (const { from, to } of empties) {
    const [key] = await db.keys({ gte: from, lt: to, limit: 1 }).all();
    if (key !== undefined) return key;
  }
  return undefined;
}

/**
 * Returns NaN for a damaged value, so that commits depending on it are refused; reading it again reports the damage.
 */
function revisionOf(key: string, value: Uint8Array): number {
  try {
    return decode(key, value).revision;
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    return Number.NaN;
  }
}
