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

/** Batches that are imported at once: one is prepared while the one before is written. */
const maxRunning = 2;

/** The batch before, which may still be imported. */
export interface EarlierBatch<T, R> {
  readonly batch: T;
  readonly result: Promise<R>;
}

/**
 * Starts each batch while the one before is still being imported, and yields the results in the order of the batches,
 * each as soon as it is known.
 */
export async function* overlapping<T, R>(
  source: AsyncIterable<T>,
  start: (batch: T, before: EarlierBatch<T, R> | undefined) => Promise<R>,
): AsyncGenerator<R> {
  const iterator = source[Symbol.asyncIterator]();
  const running: EarlierBatch<T, R>[] = [];
  // Awaited in their turns: until then, a failure is no unhandled one.
  const pull = () => handled(iterator.next());
  let next: Promise<IteratorResult<T>> | undefined = pull();
  try {
    for (;;) {
      const [oldest] = running;
      if (next === undefined && oldest === undefined) return;
      const found: IteratorResult<T> | undefined =
        next === undefined || running.length === maxRunning
          ? undefined
          : await Promise.race(oldest === undefined ? [next] : [next, oldest.result.then(nothing, nothing)]);
      if (found === undefined) {
        running.shift();
        if (oldest !== undefined) yield await oldest.result;
      } else if (found.done === true) next = undefined;
      else {
        const batch = found.value;
        running.push({ batch, result: handled(start(batch, running.at(-1))) });
        next = pull();
      }
    }
  } finally {
    // After a failure, nothing may arrive any more: wait for nothing.
    iterator.return?.().catch(nothing);
  }
}

const nothing = () => undefined;

function handled<R>(promise: Promise<R>): Promise<R> {
  promise.catch(nothing);
  return promise;
}

/** Waits one tick, so that items that have already arrived are delivered. */
const oneTurn = () => new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
