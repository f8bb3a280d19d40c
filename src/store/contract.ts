/**
 * Ordered keys with revisions, like etcd.
 *
 * Keys are well-formed strings of at most `maxKeyBytes`, ordered by their UTF-8 bytes. Every commit takes the next
 * revision, and every key remembers the revision of its last change.
 */
export interface Store {
  get(key: string): Promise<Entry | undefined>;
  /** Reads several keys as of one moment; results are in the order of the keys. */
  getMany(keys: readonly string[]): Promise<readonly (Entry | undefined)[]>;
  /** Returns at most `limit` entries, in order. */
  list(range: Range): Promise<readonly Entry[]>;
  /**
   * Applies all changes or none; they are durable once the promise resolves. Rejects with `StaleWrite` if a key is not
   * at the revision that its change expects, or a condition does not hold. Rejects with `StoreUnavailable` if the
   * changes could not be made durable: it is then unknown whether they were applied.
   */
  commit(changes: readonly Change[], conditions?: readonly Condition[], timing?: CommitTiming): Promise<number>;
  /**
   * Reports everything committed after `from`, in order. Commits of this process are reported one by one. For commits
   * of other processes, changes that a later commit replaced may be left out, so a commit may have no changes. Rejects
   * with `HistoryLost` if the commits after `from` are no longer known: then list again, and watch from the revision
   * before the list.
   */
  watch(from: number, watcher: Watcher): Promise<Watch>;
  /**
   * Resolves once local watchers have received everything that any process committed before this call; undefined if
   * they already have. Rejects with `StoreUnavailable` if this cannot be determined now.
   */
  caughtUp(): Promise<void> | undefined;
  /**
   * Returns the store's own clock, in milliseconds: the same for all processes, and independent of their wall clocks.
   */
  clock(): Promise<number>;
  /** The revision of the last commit, and whether the store accepts writes. */
  status(): StoreStatus;
  /** Undefined if no other process can open the store. */
  readonly sessions?: ProcessSessions | undefined;
}

export interface CommitTiming {
  /**
   * While other commits are frequent, this one may wait some milliseconds to share a write with the next of them. For
   * commits that no caller waits for. Only LevelDB waits.
   */
  readonly mayWait?: boolean;
}

/**
 * Distinguishes dead processes from paused ones: the operating system closes the connections of a killed process, and
 * keeps those of a stopped one.
 */
export interface ProcessSessions {
  /** Returns the ID of this process's session; undefined while there is none. */
  current(): string | undefined;
  /** Reports whether the session no longer exists in the store. A process that reconnects gets a new session. */
  hasEnded(session: string): Promise<boolean>;
}

/** A store with its administration. A backend is anything that passes the conformance suite. */
export interface Backend extends Store {
  /** Other processes may have the store open as well. */
  readonly isShared: boolean;
  /** Reads the keys of a range without their values, a page a call. */
  keys(range: KeyRange): Promise<KeyPage>;
  /**
   * Removes at most `limit` keys of a range; returns false once none is left, or if `fence` does not hold. This is no
   * commit: it has no revision, and watchers do not see it. It is for secondary keys that no watcher follows, that no
   * commit expects, and that readers ignore without their record. After a power loss they may be there again.
   */
  discard(range: KeyRange, fence: KeyCondition): Promise<boolean>;
  /** A consistent view of everything at one moment, until closed. */
  snapshot(): Promise<Snapshot>;
  /**
   * Imports the entries of a snapshot with their revisions, all or none. Rejects with `StoreUsed` unless nothing was
   * ever committed to the store.
   */
  fill(content: SnapshotContent): Promise<void>;
  /** Reads everything, files before entries, and reports damage. Runs slowly, so that other work continues. */
  scrub(): AsyncIterable<ScrubStep>;
  /** Approximate disk usage. */
  space(): Promise<Space>;
  /** Undefined unless the store was restored from a backup. */
  restoration(): Promise<Restoration | undefined>;
  /** Records what the store was restored from. Kept outside the entries, which stay exactly the backup's. */
  noteRestoration(restoration: Restoration): Promise<void>;
  /** Closes the store to commits for good; it cannot be opened again, and says where it was moved. */
  retire(to: string): Promise<void>;
  /** Waits for pending commits. Afterwards every call rejects with `StoreUnavailable`. */
  close(): Promise<void>;
}

/** The maximum size of a row in a PostgreSQL index, a third of a page, with a margin. */
export const maxKeyBytes = 2_600;

export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
}

export interface Range {
  /** First key of the range (inclusive). */
  readonly from: string;
  /** End of the range (exclusive). */
  readonly to: string;
  readonly limit: number;
  readonly reverse?: boolean;
}

export type KeyRange = Omit<Range, "reverse">;

/** Keys in order: at most as many as asked for, and possibly fewer than there are. */
export interface KeyPage {
  readonly keys: readonly string[];
  /** Where the next page begins; undefined if the range is complete. */
  readonly rest: string | undefined;
}

export interface Change {
  readonly key: string;
  /** Undefined: the key is deleted. */
  readonly value: Uint8Array | undefined;
  /** The value must be encrypted. Backends store what they are given; `sealed.ts` gives them only encrypted values. */
  readonly secret?: true;
  /** The revision that the key must be at; 0 if the key must not exist; absent: any. */
  readonly expect?: number;
}

export interface KeyCondition {
  readonly key: string;
  readonly expect: number;
}

/** A requirement besides those of the changes: on a key that is not changed, or on everything in a range. */
export type Condition = KeyCondition | { readonly empty: { readonly from: string; readonly to: string } };

export interface Commit {
  readonly revision: number;
  readonly changes: readonly Pick<Change, "key" | "value">[];
}

export interface Watcher {
  /**
   * Limits the watch to commits that change keys with these first parts; absent: all commits. Changes by other processes
   * may be left out of the history until the first watch of their space.
   */
  readonly spaces?: readonly string[];
  onCommit(commit: Commit): void;
  /**
   * Further commits are no longer known, and the watch has ended: list and watch again. The watcher counts as behind
   * until the returned promise resolves.
   */
  onLost(): unknown;
}

export interface Watch {
  close(): void;
}

export interface Snapshot {
  readonly revision: number;
  /** Pages of entries, in order. */
  pages(): AsyncIterable<readonly Entry[]>;
  close(): Promise<void>;
}

export interface SnapshotContent {
  /** The snapshot's revision; the next commit takes the one after. */
  readonly revision: number;
  /** In key order. */
  readonly pages: AsyncIterable<readonly Entry[]>;
}

/** The backup that a store was restored from. */
export interface Restoration {
  /** Anything with a later revision was written after the restore. */
  readonly backupRevision: number;
  /** When the backup was taken. */
  readonly backupAtMs: number;
  readonly restoredAtMs: number;
}

export interface ScrubStep {
  /** Entries that were read and are intact as far as the backend can tell. */
  readonly entries: readonly Entry[];
  /** Damage found, described for an operator: a key, or a file. */
  readonly damaged: readonly string[];
}

export interface StoreStatus {
  readonly backend: string;
  /** Created with the store; a copy has a different one. */
  readonly storeId: string;
  readonly format: number;
  readonly revision: number;
  readonly writable: boolean;
  /** Why the store is not writable, or why part of it is unreadable. */
  readonly reason: string | undefined;
  /**
   * Watchers may have seen commits up to this revision that were lost later, and whose revisions were reused: a watcher
   * cannot resume from such a revision. Absent: no commits were lost.
   */
  readonly lostUpTo?: number;
}

export interface Space {
  readonly usedBytes: number;
  /** Free space on the store's disk; undefined if unknown. */
  readonly freeBytes: number | undefined;
}

/** Another commit changed the key first. Read again and decide again. */
export class StaleWrite extends Error {
  override readonly name = "StaleWrite";
  readonly key: string;
  readonly current: number;

  constructor({ key, current }: { readonly key: string; readonly current: number }) {
    super(`the key is at revision ${current}`);
    this.key = key;
    this.current = current;
  }
}

/** The store cannot make anything durable at present. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** The requested commits are no longer known. */
export class HistoryLost extends Error {
  override readonly name = "HistoryLost";
  readonly oldest: number;

  constructor(oldest: number) {
    super(`the history before revision ${oldest} is gone`);
    this.oldest = oldest;
  }
}

/** The store holds data, or once did, so it cannot be filled. */
export class StoreUsed extends Error {
  override readonly name = "StoreUsed";
}

/** The store cannot be opened in its current state; the message tells the operator what to do. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}

/** The stored bytes are not what was written. */
export class StoreDamaged extends Error {
  override readonly name = "StoreDamaged";

  constructor(key: string, options?: ErrorOptions) {
    super(`the value of ${JSON.stringify(key)} is damaged`, options);
  }
}
