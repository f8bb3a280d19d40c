import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../base/world.ts";
import { type Commit, HistoryLost, type Store, type Watch } from "./contract.ts";

interface Follower {
  /** First parts of the keys to follow. */
  readonly spaces: readonly string[];
  /** Reads everything that is followed; returns a function that replaces the previous state. */
  readonly read: () => Promise<() => void>;
  readonly onCommit: (commit: Commit) => void;
}

interface FollowOptions extends Follower {
  readonly store: Store;
  readonly world: World;
}

const retryEveryMs = 1_000;

/**
 * Keeps a copy in memory in sync with the store: watches, then reads everything, and starts over whenever the store no
 * longer knows what changed. Resolves once in sync.
 */
export async function follow({ store, world, spaces, read, onCommit }: FollowOptions): Promise<Watch> {
  const ended = new AbortController();
  let watch: Watch | undefined;
  let isBeginning = false;
  let isLost = false;

  async function begin(): Promise<void> {
    isLost = false;
    watch?.close();
    // Commits during the read are applied after it.
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
        world.log.warn("could not rebuild memory from the store; will retry", { err });
        await sleep(retryEveryMs, undefined, { signal: ended.signal }).catch(() => {});
      }
    }
    isBeginning = false;
    if (ended.signal.aborted) watch?.close();
  }

  /** Commits that arrive while a first watch of a space begins may be left out of the history: begin after them. */
  async function beginFirst(): Promise<void> {
    for (;;) {
      try {
        return await begin();
      } catch (error) {
        if (!(error instanceof HistoryLost)) throw error;
      }
    }
  }

  isBeginning = true;
  await beginFirst();
  isBeginning = false;
  if (isLost) void beginAgain();
  return {
    close() {
      ended.abort();
      watch?.close();
    },
  };
}
