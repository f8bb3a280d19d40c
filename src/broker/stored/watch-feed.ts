import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type Commit, HistoryLost, type Store, type Watch } from "../../store/contract.ts";
import { under as keysUnder } from "../../store/keys.ts";
import type { Records } from "../../store/records.ts";

/** A step of a watch; WatchMarker in the proto says how a watcher handles each step. */
export type FeedStep<T> =
  | { readonly kind: "snapshot_begin" | "snapshot_end" | "resumed" | "progress"; readonly revision: number }
  | { readonly kind: "put"; readonly value: T; readonly revision: number }
  | { readonly kind: "deleted"; readonly parts: readonly string[]; readonly revision: number };

export interface FeedRequest {
  /** The first key parts of the watched records. */
  readonly under: readonly string[];
  /** Revision to resume from; 0 begins with a snapshot. */
  readonly from: number;
  /** Skips the snapshot and sends only changes from now on. */
  readonly changesOnly: boolean;
  readonly signal: AbortSignal;
  /**
   * Called when the watcher has fallen too far behind: the next step that the watcher takes throws `watch_too_slow`.
   */
  readonly onOverrun: () => void;
}

interface FeedOptions<T> {
  readonly store: Store;
  readonly records: Records<T>;
  readonly world: World;
}

/** Limits the changes, and their bytes, that may wait for a reader; a reader that falls further behind must resume. */
const maxWaiting = 10_000;
const maxWaitingBytes = 16 * 1024 * 1024;
const snapshotChunk = 500;
const progressEveryMs = 30_000;

/** Yields the current records and then every change to them, in order, until the signal aborts. */
export async function* feed<T>(options: FeedOptions<T>, request: FeedRequest): AsyncGenerator<FeedStep<T>> {
  const { store, records, world } = options;
  const { under, from, changesOnly, signal } = request;
  const backlog = createBacklog(keysUnder(records.name, ...under).from);
  const { watch, resumed, start } = await follow({ store, spaces: [records.name], backlog, from });
  backlog.onOverrun(() => {
    watch.close();
    world.metrics.watchersDropped.inc();
    request.onOverrun();
  });
  signal.addEventListener("abort", backlog.wake);
  world.metrics.watchers.inc();
  try {
    if (resumed) {
      yield { kind: "resumed", revision: from };
    } else if (changesOnly && from === 0) {
      yield { kind: "resumed", revision: start };
    } else {
      yield { kind: "snapshot_begin", revision: start };
      let after: string | undefined;
      for (;;) {
        const chunk = await records.page({ under, after, limit: snapshotChunk });
        for (const { value, revision } of chunk) yield { kind: "put", value, revision };
        after = chunk.at(-1)?.position;
        if (chunk.length < snapshotChunk || signal.aborted) break;
      }
      yield { kind: "snapshot_end", revision: start };
    }
    while (!signal.aborted) {
      const change = backlog.take();
      if (change !== undefined) yield stepOf(records, change);
      else if (!(await backlog.woken())) yield { kind: "progress", revision: store.status().revision };
    }
  } finally {
    signal.removeEventListener("abort", backlog.wake);
    watch.close();
    world.metrics.watchers.dec();
  }
}

/** A change of a commit. Its bytes belong to the store and are in memory once, for any number of watchers. */
interface Pending {
  readonly key: string;
  readonly value: Uint8Array | undefined;
  readonly revision: number;
}

function stepOf<T>(records: Records<T>, { key, value: bytes, revision }: Pending): FeedStep<T> {
  const read = records.read({ key, value: bytes }, revision);
  if (read === undefined) throw new Error("a change of another collection was read as one of this collection");
  const { value, parts } = read;
  return value === undefined ? { kind: "deleted", parts, revision } : { kind: "put", value, revision };
}

interface FeedFollower {
  readonly store: Store;
  readonly spaces: readonly string[];
  readonly backlog: Backlog;
  readonly from: number;
}

interface FollowedWatch {
  readonly watch: Watch;
  readonly resumed: boolean;
  /** The snapshot is at this revision or later. */
  readonly start: number;
}

/**
 * Follows the store from the watcher's last revision, if the history still has that revision and is short enough;
 * otherwise from now.
 */
async function follow({ store, spaces, backlog, from }: FeedFollower): Promise<FollowedWatch> {
  // A lost watch is reported like a watcher that fell behind: in both cases the watcher resumes and gets a snapshot.
  const { lose: onLost } = backlog;
  if (from > (store.status().lostUpTo ?? 0)) {
    try {
      // Throws `HistoryLost` if this store has not reached revision `from`: the watcher cannot resume there.
      (await store.watch(from, { spaces, onCommit: () => {}, onLost: () => {} })).close();
      const watch = await store.watch(from - 1, {
        spaces,
        // The watcher saw all of a commit with one change. When disconnected, a watcher may have seen only a part of a
        // commit with several changes, so all changes of such a commit are sent again.
        onCommit: (commit) => {
          if (commit.revision > from || backlog.concerning(commit).length > 1) backlog.add(commit);
        },
        onLost,
      });
      if (!backlog.isOverrun()) return { watch, resumed: true, start: from };
      watch.close();
      backlog.clear();
    } catch (error) {
      if (!(error instanceof HistoryLost)) throw error;
    }
  }
  const start = store.status().revision;
  return { watch: await store.watch(start, { spaces, onCommit: backlog.add, onLost }), resumed: false, start };
}

/** The changes that a watcher has not taken yet. */
interface Backlog {
  concerning(commit: Commit): Commit["changes"];
  add(commit: Commit): void;
  /** Marks the watch as lost: the next changes are unknown, so the backlog counts as overrun. */
  lose(): void;
  /** Takes the oldest change. Throws `watch_too_slow` after an overrun. */
  take(): Pending | undefined;
  /** Resolves to true at the next event, or to false when a while passes without one. */
  woken(): Promise<boolean>;
  wake(): void;
  isOverrun(): boolean;
  onOverrun(call: () => void): void;
  clear(): void;
}

function createBacklog(prefix: string): Backlog {
  let waiting: Pending[] = [];
  let taken = 0;
  let bytes = 0;
  let overrun = false;
  let wakeUp = () => {};
  let tellOverrun = () => {};

  const concerning = ({ changes }: Commit) => changes.filter(({ key }) => key.startsWith(prefix));
  const sizeOf = ({ key, value }: Pick<Pending, "key" | "value">) => key.length + (value?.length ?? 0);

  function clear(): void {
    waiting = [];
    taken = 0;
    bytes = 0;
    overrun = false;
  }

  function lose(): void {
    clear();
    overrun = true;
    tellOverrun();
    wakeUp();
  }

  return {
    concerning,
    clear,
    lose,
    add(commit) {
      if (overrun) return;
      for (const { key, value } of concerning(commit)) {
        waiting.push({ key, value, revision: commit.revision });
        bytes += sizeOf({ key, value });
      }
      if (waiting.length - taken > maxWaiting || bytes > maxWaitingBytes) lose();
      else wakeUp();
    },
    take() {
      if (overrun) {
        throw new Fault(
          "watch_too_slow",
          "the watcher fell too far behind; resume from the last revision that it received",
        );
      }
      const next = waiting[taken];
      if (next === undefined) return undefined;
      taken += 1;
      bytes -= sizeOf(next);
      // Remove taken changes in large pieces: removing one by one would move the whole rest each time.
      if (taken === waiting.length || taken > 1_024) {
        waiting.splice(0, taken);
        taken = 0;
      }
      return next;
    },
    woken: () =>
      new Promise((resolve) => {
        const timer = setTimeout(() => resolve(false), progressEveryMs);
        wakeUp = () => {
          clearTimeout(timer);
          resolve(true);
        };
      }),
    wake: () => wakeUp(),
    isOverrun: () => overrun,
    onOverrun: (call) => {
      tellOverrun = call;
    },
  };
}
