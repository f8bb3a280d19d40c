import type { Change } from "./contract.ts";

/**
 * Caches the revisions of keys that recent commits expected: a new record is often changed a moment later, and each
 * lookup takes 1 to 8 µs. Only for a store that no other process commits to.
 */
export interface RecentRevisions {
  /** 0: the key does not exist; undefined: not cached. */
  of(key: string): number | undefined;
  changed(changes: readonly Change[], revision: number): void;
  /** Clears the cache after a write with an unknown outcome. */
  clear(): void;
}

const kept = 512;

/** Two generations: when the younger is full, the older is dropped as a whole, at no cost per key. */
export function createRecentRevisions(): RecentRevisions {
  let younger = new Map<string, number>();
  let older = new Map<string, number>();
  return {
    of: (key) => younger.get(key) ?? older.get(key),
    changed(changes, revision) {
      // A bulk import: to look for each key would cost more than to read again.
      if (changes.length > kept) {
        younger = new Map();
        older = new Map();
        return;
      }
      for (const { key, value, expect } of changes) {
        if (expect === undefined && !younger.has(key) && !older.has(key)) continue;
        younger.set(key, value === undefined ? 0 : revision);
      }
      if (younger.size <= kept) return;
      older = younger;
      younger = new Map();
    },
    clear() {
      younger.clear();
      older.clear();
    },
  };
}
