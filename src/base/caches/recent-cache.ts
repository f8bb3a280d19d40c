/**
 * Caches results for texts that repeat. Uses two generations: an entry that was not read while a generation filled up
 * is dropped, so that no order has to be kept.
 */
export function createRecentCache<T>(max: number): {
  get(text: string): T | undefined;
  set(text: string, made: T): void;
} {
  let young = new Map<string, T>();
  let old = new Map<string, T>();

  function set(text: string, made: T): void {
    if (young.size >= max) {
      old = young;
      young = new Map();
    }
    young.set(text, made);
  }

  return {
    get(text) {
      const known = young.get(text);
      if (known !== undefined) return known;
      const older = old.get(text);
      if (older !== undefined) set(text, older);
      return older;
    },
    set,
  };
}
