/** Functions that are called at an event. */
export interface Callbacks<T> {
  /** Adds a callback; returns the function that removes it. */
  add(call: (event: T) => void): () => void;
  run(event: T): void;
}

export function createCallbacks<T>(): Callbacks<T> {
  const all = new Set<(event: T) => void>();
  return {
    add(call) {
      all.add(call);
      return () => void all.delete(call);
    },
    run(event) {
      for (const call of all) call(event);
    },
  };
}
