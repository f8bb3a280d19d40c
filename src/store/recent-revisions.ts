import type { Change } from "./contract.ts";
import { keySample } from "./key-sample.ts";

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
const sampleSlots = 8_192;

/** Revisions by key. Most keys that are asked for are in none: their samples say so. */
class Generation {
  readonly #revisions = new Map<string, number>();
  readonly #samples = new Uint8Array(sampleSlots);

  get size(): number {
    return this.#revisions.size;
  }

  get(key: string, sample: number): number | undefined {
    return this.#samples[sample % sampleSlots] === 0 ? undefined : this.#revisions.get(key);
  }

  set(key: string, sample: number, revision: number): void {
    this.#samples[sample % sampleSlots] = 1;
    this.#revisions.set(key, revision);
  }
}

/** Two generations: when the younger is full, the older is dropped as a whole, at no cost per key. */
export function createRecentRevisions(): RecentRevisions {
  let younger = new Generation();
  let older = new Generation();

  function clear(): void {
    younger = new Generation();
    older = new Generation();
  }

  const find = (key: string, sample: number) => younger.get(key, sample) ?? older.get(key, sample);

  return {
    of: (key) => find(key, keySample(key)),
    changed(changes, revision) {
      // A bulk import: to look for each key would cost more than to read again.
      if (changes.length > kept) {
        clear();
        return;
      }
      for (const { key, value, expect } of changes) {
        const sample = keySample(key);
        if (expect === undefined && find(key, sample) === undefined) continue;
        younger.set(key, sample, value === undefined ? 0 : revision);
      }
      if (younger.size <= kept) return;
      older = younger;
      younger = new Generation();
    },
    clear,
  };
}
