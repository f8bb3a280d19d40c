import { type Commit, HistoryLost, type Watch, type Watcher } from "./contract.ts";

/** The last commits, kept so that a watcher can resume, and handed to those who watch. */
export interface History {
  /** The newest revision that it knows of. */
  readonly revision: number;
  add(commit: Commit): void;
  /** What came before this revision is no longer known: every watcher is told, and its watch ends. */
  lose(revision: number): void;
  /** Resolves once those who were told so have read anew; undefined: they have. */
  readonly relearning: Promise<void> | undefined;
  watch(from: number, watcher: Watcher): Watch;
}

interface HistoryOptions {
  /** The revision that the store begins at. */
  readonly revision: number;
  /** How much of the past is kept. */
  readonly maxBytes: number;
  /** A watcher that throws must not stop the others, nor the commit. */
  readonly onWatcherError: (error: unknown) => void;
}

export function createHistory({ revision, maxBytes, onWatcherError }: HistoryOptions): History {
  const kept: ({ readonly commit: Commit; readonly bytes: number } | undefined)[] = [];
  let first = 0;
  let bytes = 0;
  let oldest = revision;
  let newest = revision;
  const watchers = new Set<Watcher>();
  let relearning: Promise<void> | undefined;

  function tell<T>(call: () => T): T | undefined {
    try {
      return call();
    } catch (error) {
      onWatcherError(error);
      return undefined;
    }
  }

  function waitFor(learning: readonly unknown[]): void {
    const all = Promise.allSettled([relearning, ...learning]).then(() => {
      if (relearning === all) relearning = undefined;
    });
    relearning = all;
  }

  function forget(): void {
    while (bytes > maxBytes && first < kept.length) {
      const dropped = kept[first];
      if (dropped === undefined) break;
      bytes -= dropped.bytes;
      // Let go of at once: its place goes later, with many others.
      kept[first] = undefined;
      oldest = dropped.commit.revision;
      first += 1;
    }
    // An array shifted one by one costs its whole length each time; cut off in large pieces it does not.
    if (first > 1_024 && first * 2 > kept.length) {
      kept.splice(0, first);
      first = 0;
    }
  }

  return {
    get revision() {
      return newest;
    },
    add(commit) {
      const size = sizeOf(commit);
      kept.push({ commit, bytes: size });
      bytes += size;
      newest = commit.revision;
      forget();
      for (const watcher of [...watchers]) tell(() => watcher.onCommit(commit));
    },
    lose(at) {
      kept.length = 0;
      first = 0;
      bytes = 0;
      oldest = at;
      newest = at;
      const told = [...watchers];
      watchers.clear();
      waitFor(told.map((watcher) => tell(() => watcher.onLost())));
    },
    get relearning() {
      return relearning;
    },
    watch(from, watcher) {
      if (from < oldest || from > newest) throw new HistoryLost(oldest);
      for (let i = first; i < kept.length; i += 1) {
        const past = kept[i];
        if (past !== undefined && past.commit.revision > from) tell(() => watcher.onCommit(past.commit));
      }
      // Its own, so that one watcher may watch twice.
      const own: Watcher = { onCommit: (commit) => watcher.onCommit(commit), onLost: () => watcher.onLost() };
      watchers.add(own);
      return { close: () => void watchers.delete(own) };
    },
  };
}

/** What a change costs in V8 beside its bytes: an object, a string, a typed array and its buffer. */
const overheadBytes = 320;
const sizeOf = ({ changes }: Commit) =>
  changes.reduce((sum, { key, value }) => sum + overheadBytes + key.length + (value?.length ?? 0), overheadBytes);
