/**
 * Merges concurrent calls of the same query. No caller gets a response to a query that was sent before its call: calls
 * during a query share the next one.
 */
export function createSharedQuery<T>(ask: () => Promise<T>): () => Promise<T> {
  let isOnItsWay = false;
  let next: Promise<T> | undefined;
  let begin = () => {};

  async function asked(begun: Promise<void>): Promise<T> {
    await begun;
    next = undefined;
    isOnItsWay = true;
    try {
      return await ask();
    } finally {
      isOnItsWay = false;
      begin();
    }
  }

  return () => {
    if (next !== undefined) return next;
    const { promise, resolve } = Promise.withResolvers<void>();
    begin = resolve;
    next = asked(promise);
    // Deferred by a microtask, so that calls of the same tick share the query.
    if (!isOnItsWay) queueMicrotask(begin);
    return next;
  };
}
