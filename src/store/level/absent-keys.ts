import { setImmediate } from "node:timers/promises";
import type { Change } from "../contract.ts";
import type { CheckedDatabase } from "./checked-database.ts";
import { createKeyFilter, type KeyFilter } from "./key-filter.ts";

/**
 * Knows without a read that a key does not exist. New records are expected to be absent, and LevelDB needs 2 to 5 µs to
 * say so for each, on the main thread. A space whose absent keys are often read gets a filter of all its keys; only for
 * a store that no other process commits to.
 */
export interface AbsentKeys {
  /** True: the key certainly does not exist. False: it may exist. */
  isAbsent(key: string): boolean;
  /** The key was read and does not exist. */
  noteMiss(key: string): void;
  /** Call before the changes are written: whether a failed write was applied is unknown. */
  willWrite(changes: readonly Change[]): void;
  /** Forgets everything: keys may have been written otherwise. */
  clear(): void;
}

/** Reads of absent keys after which a space gets a filter. */
export const misses = 1_000;
/** An import of connections misses three spaces, webhooks two. */
const mostSpaces = 12;
/** Limits all filters together. */
const mostBytes = 64 * 1024 * 1024;
/** Keys are read in small pages: each is decoded on the main thread. */
const pageKeys = 500;
/** An iterator's default is 16 KiB, which is less than a page. */
const pageBytes = 64 * 1024;

interface FilteredSpace {
  /** First part of the keys, with its NUL. */
  readonly prefix: string;
  readonly filter: KeyFilter;
  /** All keys are in the filter. */
  isComplete: boolean;
}

export function createAbsentKeys(database: Pick<CheckedDatabase, "db">): AbsentKeys {
  let spaces: FilteredSpace[] = [];
  /** Misses by space; not counted for spaces with too many keys. */
  let missed = new Map<string, number>();

  const spaceOf = (key: string): FilteredSpace | undefined => spaces.find(({ prefix }) => key.startsWith(prefix));

  const mayGrow = (bytes: number): boolean =>
    spaces.reduce((sum, { filter }) => sum + filter.bytes, bytes) <= mostBytes;

  function drop(space: FilteredSpace): void {
    spaces = spaces.filter((one) => one !== space);
  }

  /**
   * Keys that are written meanwhile are added by `willWrite`, and an iterator does not show them: otherwise, an import
   * could write keys faster than they are read here.
   */
  async function readAll(space: FilteredSpace): Promise<void> {
    const { prefix, filter } = space;
    const range = { gte: prefix, lt: `${prefix.slice(0, -1)}\x01` };
    const iterator = database.db.keys({ ...range, highWaterMarkBytes: pageBytes });
    try {
      for (;;) {
        const page = await iterator.nextv(pageKeys);
        if (!spaces.includes(space)) return;
        if (!page.every((key) => filter.add(key))) return drop(space);
        if (page.length === 0) break;
        await setImmediate();
      }
    } finally {
      await iterator.close();
    }
    space.isComplete = true;
  }

  function begin(prefix: string): void {
    const space: FilteredSpace = { prefix, filter: createKeyFilter(mayGrow), isComplete: false };
    spaces.push(space);
    // LevelDB is being reopened: without a filter, each key is read.
    readAll(space).catch(() => drop(space));
  }

  return {
    isAbsent(key) {
      const space = spaceOf(key);
      return space?.isComplete === true && !space.filter.has(key);
    },
    noteMiss(key) {
      const end = key.indexOf("\0") + 1;
      if (end === 0 || spaces.length === mostSpaces || spaceOf(key) !== undefined) return;
      const prefix = key.slice(0, end);
      const count = (missed.get(prefix) ?? 0) + 1;
      missed.set(prefix, count);
      // No write is under way during a check: all keys are either in LevelDB, or come to `willWrite` later.
      if (count === misses) begin(prefix);
    },
    willWrite(changes) {
      if (spaces.length === 0) return;
      for (const { key, value } of changes) {
        const space = value === undefined ? undefined : spaceOf(key);
        if (space === undefined || space.filter.add(key)) continue;
        // Begins again after more misses, without the keys that were deleted, unless there are too many.
        drop(space);
        if (space.isComplete) missed.delete(space.prefix);
      }
    },
    clear() {
      spaces = [];
      missed = new Map();
    },
  };
}
