/** A map of limited size that drops its oldest entries, so that requests cannot make it grow without end. */
export interface Bounded<V> {
  get(key: string): V | undefined;
  /** Setting an entry again makes it the youngest. */
  set(key: string, value: V): void;
  delete(key: string): boolean;
  values(): IterableIterator<V>;
  clear(): void;
  readonly size: number;
}

export function createBounded<V>(most: number): Bounded<V> {
  const entries = new Map<string, V>();
  return {
    get: (key) => entries.get(key),
    set(key, value) {
      entries.delete(key);
      entries.set(key, value);
      const [oldest] = entries.keys();
      if (entries.size > most && oldest !== undefined) entries.delete(oldest);
    },
    delete: (key) => entries.delete(key),
    values: () => entries.values(),
    clear: () => entries.clear(),
    get size() {
      return entries.size;
    },
  };
}
