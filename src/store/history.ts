import type { Log } from "../base/log.ts";
import type { Metrics } from "../base/metrics/metrics.ts";
import { createCommitLog } from "./commit-log.ts";
import { type Commit, HistoryLost, type Watch, type Watcher } from "./contract.ts";

/** Recent commits, kept so that watchers can resume, and delivered to current watchers. */
export interface History {
  /** The latest known revision. */
  readonly revision: number;
  add(commit: Commit): void;
  /** Discards the history before this revision: every watcher is notified, and its watch ends. */
  lose(revision: number): void;
  /** Resolves once the notified watchers have read everything again; undefined if they have. */
  readonly relearning: Promise<void> | undefined;
  watch(from: number, watcher: Watcher): Watch;
}

interface HistoryOptions {
  /** The revision that the store starts at. */
  readonly revision: number;
  /** Maximum size of the kept commits. */
  readonly maxBytes: number;
  /** A watcher that throws must not stop the other watchers or the commit. */
  readonly onWatcherError: (error: unknown) => void;
}

const storeHistoryBytes = 16 * 1024 * 1024;

interface StoreHistoryOptions {
  readonly revision: number;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Creates the history of a backend: failures of watchers are logged and counted. */
export const createStoreHistory = ({ revision, log, metrics }: StoreHistoryOptions): History =>
  createHistory({
    revision,
    maxBytes: storeHistoryBytes,
    onWatcherError(err) {
      metrics.unhandled.inc();
      log.error("a watcher of the store threw an error", { err });
    },
  });

export function createHistory({ revision, maxBytes, onWatcherError }: HistoryOptions): History {
  const commitLog = createCommitLog(maxBytes);
  /** The revision at which the history starts, or was last lost. */
  let startRevision = revision;
  let newest = revision;
  /** Replaced, not modified, when a watcher comes or goes: a watcher may end a watch during a commit. */
  let watchers: readonly Watcher[] = [];
  let relearning: Promise<void> | undefined;

  function guarded<T>(callback: () => T): T | undefined {
    try {
      return callback();
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
      commitLog.add(commit);
      newest = commit.revision;
      const spaces = spacesIn(commit);
      for (const watcher of watchers) if (concerns(watcher, spaces)) guarded(() => watcher.onCommit(commit));
    },
    lose(at) {
      commitLog.clear();
      startRevision = at;
      newest = at;
      const notified = watchers;
      watchers = [];
      waitFor(notified.map((watcher) => guarded(() => watcher.onLost())));
    },
    get relearning() {
      return relearning;
    },
    watch(from, watcher) {
      const oldest = commitLog.forgotten ?? startRevision;
      if (from < oldest || from > newest) throw new HistoryLost(oldest);
      for (const commit of commitLog.after(from)) {
        if (concerns(watcher, spacesIn(commit))) guarded(() => watcher.onCommit(commit));
      }
      // A copy, so that one watcher can be registered twice.
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

/** Returns the parts of the store that a commit changes, usually a few. */
function spacesIn({ changes }: Commit): readonly string[] {
  const spaces: string[] = [];
  for (const { key } of changes) {
    if (isInOneOf(spaces, key)) continue;
    const end = key.indexOf("\0");
    spaces.push(end === -1 ? key : key.slice(0, end));
  }
  return spaces;
}

function isInOneOf(spaces: readonly string[], key: string): boolean {
  for (const space of spaces) if (isIn(space, key)) return true;
  return false;
}

const isIn = (space: string, key: string): boolean =>
  (key.length === space.length || key.charCodeAt(space.length) === 0) && key.startsWith(space);

function concerns({ spaces }: Watcher, changed: readonly string[]): boolean {
  if (spaces === undefined) return true;
  for (const space of spaces) if (changed.includes(space)) return true;
  return false;
}
