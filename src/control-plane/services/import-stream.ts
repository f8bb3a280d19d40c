/** Maximum number of items in a commit. */
const maxBatch = 500;

/**
 * Groups incoming items into batches: all that arrived while the last batch was being written. So a slow sender never
 * waits, and a fast one shares fsyncs. Holds at most one batch.
 */
export async function* batches<T>(items: AsyncIterable<T>): AsyncGenerator<T[]> {
  const iterator = items[Symbol.asyncIterator]();
  let next = iterator.next();
  try {
    for (;;) {
      const first = await next;
      if (first.done === true) return;
      const batch = [first.value];
      next = iterator.next();
      // One timer for all items of a tick: one for each item would cost more than its read.
      let turn = oneTurn();
      let isFirstOfTurn = true;
      while (batch.length < maxBatch) {
        const more = await Promise.race([next, turn]);
        if (more === undefined) {
          if (isFirstOfTurn) break;
          turn = oneTurn();
          isFirstOfTurn = true;
          continue;
        }
        if (more.done === true) break;
        isFirstOfTurn = false;
        batch.push(more.value);
        next = iterator.next();
      }
      yield batch;
    }
  } finally {
    // The pending read may reject when the stream breaks: handle that.
    next.catch(() => undefined);
    await iterator.return?.();
  }
}

/** Waits one tick, so that items that have already arrived are delivered. */
const oneTurn = () => new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
