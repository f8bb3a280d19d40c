import type { World } from "../../base/world.ts";

/**
 * Checks of subjects that have changed: one at a time for each subject, and a few in all. A subject that changes during
 * its check is checked again; so is one whose check failed, after a second.
 */
export interface Rechecks<T> {
  add(key: string, subject: T): void;
  close(): void;
}

interface RechecksOptions<T> {
  readonly check: (subject: T) => Promise<void>;
  readonly atOnce: number;
  readonly world: World;
}

const retryMs = 1_000;

export function createRechecks<T>({ check, atOnce, world }: RechecksOptions<T>): Rechecks<T> {
  const waiting = new Map<string, T>();
  const running = new Set<string>();
  const failed = new Map<string, T>();
  let isStarting = false;
  let isClosed = false;
  let retry: NodeJS.Timeout | undefined;

  /** Starts after the commit has reached all that follow the store, such as the cache of connections. */
  function startSoon(): void {
    if (isStarting || isClosed) return;
    isStarting = true;
    setImmediate(() => {
      isStarting = false;
      start();
    });
  }

  function start(): void {
    for (const [key, subject] of waiting) {
      if (running.size >= atOnce || isClosed) return;
      if (running.has(key)) continue;
      waiting.delete(key);
      running.add(key);
      void run(key, subject);
    }
  }

  async function run(key: string, subject: T): Promise<void> {
    try {
      await check(subject);
    } catch (err) {
      world.log.debug("could not read a change for edges; will retry", { err });
      failed.set(key, subject);
      retry ??= setTimeout(retryAll, retryMs).unref();
    }
    running.delete(key);
    start();
  }

  function retryAll(): void {
    retry = undefined;
    for (const [key, subject] of failed) waiting.set(key, subject);
    failed.clear();
    start();
  }

  return {
    add(key, subject) {
      waiting.set(key, subject);
      startSoon();
    },
    close() {
      isClosed = true;
      clearTimeout(retry);
      waiting.clear();
      failed.clear();
    },
  };
}
