import { createCommitLog } from "./commit-log.ts";
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
  const past = createCommitLog(maxBytes);
  /** What it began at, or lost its thread at. */
  let began = revision;
  let newest = revision;
  /** Another list each time that one comes or goes: whoever is told of a commit may be what ends a watch. */
  let watchers: readonly Watcher[] = [];
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

  return {
    get revision() {
      return newest;
    },
    add(commit) {
      past.add(commit);
      newest = commit.revision;
      const spaces = spacesIn(commit);
      for (const watcher of watchers) if (concerns(watcher, spaces)) tell(() => watcher.onCommit(commit));
    },
    lose(at) {
      past.clear();
      began = at;
      newest = at;
      const told = watchers;
      watchers = [];
      waitFor(told.map((watcher) => tell(() => watcher.onLost())));
    },
    get relearning() {
      return relearning;
    },
    watch(from, watcher) {
      const oldest = past.forgotten ?? began;
      if (from < oldest || from > newest) throw new HistoryLost(oldest);
      for (const commit of past.after(from)) {
        if (concerns(watcher, spacesIn(commit))) tell(() => watcher.onCommit(commit));
      }
      // Its own, so that one watcher may watch twice.
      const own: Watcher = {
        ...watcher,
        onCommit: (commit) => watcher.onCommit(commit),
        onLost: () => watcher.onLost(),
      };
      watchers = [...watchers, own];
      return {
        close() {
          watchers = watchers.filter((one) => one !== own);
        },
      };
    },
  };
}

/** Which parts of the store a commit changes: a handful. */
function spacesIn({ changes }: Commit): readonly string[] {
  const spaces: string[] = [];
  for (const { key } of changes) {
    const end = key.indexOf("\0");
    const space = end === -1 ? key : key.slice(0, end);
    if (!spaces.includes(space)) spaces.push(space);
  }
  return spaces;
}

function concerns({ spaces }: Watcher, changed: readonly string[]): boolean {
  if (spaces === undefined) return true;
  for (const space of spaces) if (changed.includes(space)) return true;
  return false;
}
