/**
 * One question of many who ask it at the same time, asked once. Nobody is given an answer that was asked for before they
 * came: whoever comes while one is on its way shares the next.
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
    // A turn later, for those who ask in the same one.
    if (!isOnItsWay) queueMicrotask(begin);
    return next;
  };
}
