import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../base/world.ts";
import type { Commit, Store, Watch } from "./contract.ts";

interface Follower {
  /** What is followed: the first parts of its keys. */
  readonly spaces: readonly string[];
  /** Reads everything that is followed; what it returns puts that in the place of what was known before. */
  readonly read: () => Promise<() => void>;
  readonly onCommit: (commit: Commit) => void;
}

interface FollowOptions extends Follower {
  readonly store: Store;
  readonly world: World;
}

const retryEveryMs = 1_000;

/**
 * Keeps something in memory in step with the store: watches, then reads all of it, and does both again whenever
 * the store can no longer say what has changed. Resolves once it is in step.
 */
export async function follow({ store, world, spaces, read, onCommit }: FollowOptions): Promise<Watch> {
  const ended = new AbortController();
  let watch: Watch | undefined;
  let isBeginning = false;
  let isLost = false;

  async function begin(): Promise<void> {
    isLost = false;
    watch?.close();
    // What is committed while everything is being read comes after it.
    const early: Commit[] = [];
    let isEarly = true;
    watch = await store.watch(store.status().revision, {
      spaces,
      onCommit: (commit) => {
        if (isEarly) early.push(commit);
        else onCommit(commit);
      },
      onLost: () => {
        isLost = true;
        return isBeginning ? undefined : beginAgain();
      },
    });
    const replace = await read();
    replace();
    for (const commit of early) onCommit(commit);
    isEarly = false;
  }

  async function beginAgain(): Promise<void> {
    isBeginning = true;
    while (isLost && !ended.signal.aborted) {
      world.metrics.storeHistoryLost.inc();
      try {
        await begin();
      } catch (err) {
        isLost = true;
        world.log.warn("what is in memory could not be read anew yet", { err });
        await sleep(retryEveryMs, undefined, { signal: ended.signal }).catch(() => {});
      }
    }
    isBeginning = false;
    if (ended.signal.aborted) watch?.close();
  }

  isBeginning = true;
  await begin();
  isBeginning = false;
  if (isLost) void beginAgain();
  return {
    close() {
      ended.abort();
      watch?.close();
    },
  };
}
