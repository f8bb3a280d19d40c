import { LRUCache } from "lru-cache";

/** Keeps the entries that were used last. */
export interface LateCache<V> {
  readonly size: number;
  get(key: string): V | undefined;
  /** Reads an entry without using it. */
  peek(key: string): V | undefined;
  has(key: string): boolean;
  /** Its own time to live in place of the cache's. */
  set(key: string, value: V, own?: { readonly ttl: number }): void;
  delete(key: string): void;
  clear(): void;
  values(): Iterable<V>;
}

/**
 * A cache that takes its memory with its first entry: `LRUCache` takes 20 to 37 bytes for each entry that it may ever
 * have. A sidecar has twenty caches, most of which stay empty: 2 MB.
 */
export function createLateCache<V extends {}>(options: LRUCache.Options<string, V, unknown>): LateCache<V> {
  let cache: LRUCache<string, V> | undefined;
  return {
    get size() {
      return cache?.size ?? 0;
    },
    get: (key) => cache?.get(key),
    peek: (key) => cache?.peek(key),
    has: (key) => cache?.has(key) === true,
    set(key, value, own) {
      cache ??= new LRUCache(options);
      cache.set(key, value, own);
    },
    delete: (key) => void cache?.delete(key),
    clear: () => cache?.clear(),
    values: () => cache?.values() ?? [],
  };
}
