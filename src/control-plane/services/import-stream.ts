/** So many items share one commit. */
const maxBatch = 500;

/**
 * Items as they come, in batches: as many as have arrived while the last batch was being written, so that a slow
 * sender waits for nothing and a fast one shares its fsyncs. No more than one batch is held.
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
      while (batch.length < maxBatch) {
        const more = await Promise.race([next, oneTurn()]);
        if (more === undefined || more.done === true) break;
        batch.push(more.value);
        next = iterator.next();
      }
      yield batch;
    }
  } finally {
    // What was asked for and not taken must not fail unheard when the stream breaks.
    next.catch(() => undefined);
    await iterator.return?.();
  }
}

/** Lets what has already arrived be handed over, and waits for nothing more. */
const oneTurn = () => new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
