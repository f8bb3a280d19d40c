/** A commit has this many items, or more if more came at once. */
const maxBatch = 500;

/**
 * Groups incoming items into batches: all that arrived while the last batch was being written. So a slow sender never
 * waits, and a fast one shares fsyncs. Holds at most one batch.
 */
export async function* batches<T>(arrivals: AsyncIterable<readonly T[]>): AsyncGenerator<T[]> {
  const iterator = arrivals[Symbol.asyncIterator]();
  let next = iterator.next();
  try {
    for (;;) {
      const first = await next;
      if (first.done === true) return;
      const batch = [...first.value];
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
        for (const item of more.value) batch.push(item);
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

/** An import of a batch that has begun. */
interface BegunBatch<R> {
  readonly result: Promise<R>;
}

/**
 * Starts each batch while the one before is still being imported, and yields the results in the order of the batches,
 * each as soon as it is known.
 */
export async function* overlapping<T, B extends BegunBatch<unknown>>(
  source: AsyncIterable<T>,
  start: (batch: T, before: B | undefined) => B,
): AsyncGenerator<Awaited<B["result"]>> {
  const iterator = source[Symbol.asyncIterator]();
  const running: B[] = [];
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
        if (oldest !== undefined) yield (await oldest.result) as Awaited<B["result"]>;
      } else if (found.done === true) next = undefined;
      else {
        const begun = start(found.value, running.at(-1));
        handled(begun.result);
        running.push(begun);
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
