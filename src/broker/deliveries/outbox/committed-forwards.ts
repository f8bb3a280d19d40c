import type { Change } from "../../../store/contract.ts";

/** A forward as it was committed. */
export interface CommittedForward {
  readonly change: Pick<Change, "key" | "value">;
  readonly revision: number;
}

/**
 * Limits the cached forwards of all destinations together. The oldest are evicted first, such as those of a destination
 * that accepts none.
 */
const mostCached = 1_000;

interface CacheEntry {
  forward: CommittedForward | undefined;
}

/** Forwards as they were committed, by name: those that are sent soon need no read of the store. */
export class CommittedForwards {
  readonly #entries = new Map<string, CacheEntry>();

  get(name: string): CommittedForward | undefined {
    return this.#entries.get(name)?.forward;
  }

  put(name: string, forward: CommittedForward): void {
    const [oldest] = this.#entries.size < mostCached ? [] : this.#entries.keys();
    if (oldest !== undefined) this.remove(oldest);
    this.#entries.set(name, { forward });
  }

  /**
   * Clears the large value of a removed entry. After a Map grows or compacts, its previous table still references the
   * old entries. Once one table is in the old generation, each later table is kept until a full collection.
   */
  remove(name: string): void {
    if (this.#entries.size === 0) return;
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    entry.forward = undefined;
    this.#entries.delete(name);
  }

  clear(): void {
    this.#entries.clear();
  }
}
