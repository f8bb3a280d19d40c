/**
 * Ordered keys with revisions, like etcd.
 *
 * Keys are well-formed strings of at most `maxKeyBytes`, ordered by their UTF-8 bytes. Every commit takes the next revision, and every
 * key remembers the revision of its last change.
 */
export interface Store {
  get(key: string): Promise<Entry | undefined>;
  /** Many at once, in the order of the keys asked for, all as of one moment. */
  getMany(keys: readonly string[]): Promise<readonly (Entry | undefined)[]>;
  /** In order; at most `limit`. */
  list(range: Range): Promise<readonly Entry[]>;
  /**
   * All changes or none, durable once it resolves. Rejects with `StaleWrite` when a key is not at the revision
   * that its change expects, or a condition does not hold at that moment, and with `StoreUnavailable` when it could
   * not be made durable: then whether it happened is unknown.
   */
  commit(changes: readonly Change[], conditions?: readonly Condition[]): Promise<number>;
  /**
   * Tells of everything committed after `from`, in order. What this process committed comes commit by commit; of
   * what others committed, a change that a later one has replaced may be left out, and a commit may so have none.
   * Rejects with `HistoryLost` when what came after `from` is no longer known: then list anew, and watch from the revision before the list.
   */
  watch(from: number, watcher: Watcher): Promise<Watch>;
  /**
   * Resolves once those who watch here have been told of everything that was committed before this was asked, by
   * whomever; undefined: they have been. Rejects with `StoreUnavailable` when that cannot be known now.
   */
  caughtUp(): Promise<void> | undefined;
  /** The store's own clock, in milliseconds: the same for all who share it, and no wall clock of theirs. */
  clock(): Promise<number>;
  /** The revision of the last commit, and whether the store takes more. */
  status(): StoreStatus;
  /** Undefined where no other process can have the store open. */
  readonly sessions?: ProcessSessions | undefined;
}

/**
 * Tells a process that died from one that is paused: the operating system closes the connections of a process that
 * is killed, and keeps those of a stopped one.
 */
export interface ProcessSessions {
  /** Names this process's session; undefined while there is none. */
  current(): string | undefined;
  /** Whether the store has no such session any more. A process that reconnects gets another session. */
  hasEnded(session: string): Promise<boolean>;
}

/**
 * A store as it lies somewhere, with what looks after it as a whole. A backend is whatever passes the conformance
 * suite.
 */
export interface Backend extends Store {
  /** Other processes may have it open as well. */
  readonly isShared: boolean;
  /** Everything as of one moment, for as long as it is held. */
  snapshot(): Promise<Snapshot>;
  /**
   * Takes in the entries of a snapshot, with their revisions, all or none. Only a store that nothing was ever
   * committed to can be filled; any other rejects with `StoreUsed`.
   */
  fill(content: SnapshotContent): Promise<void>;
  /** Reads everything there is, files before entries, and says what is damaged. Slowly, so that others get their turn. */
  scrub(): AsyncIterable<ScrubStep>;
  /** What it takes up, roughly. */
  space(): Promise<Space>;
  /** Undefined for a store that was not restored from a backup. */
  restoration(): Promise<Restoration | undefined>;
  /** Notes what the store was restored from. Beside the entries: those are exactly the backup's. */
  noteRestoration(restoration: Restoration): Promise<void>;
  /** Nothing is ever committed to it again, and it cannot be opened: it says where it went. */
  retire(to: string): Promise<void>;
  /** Waits for what is being committed. After it everything rejects with `StoreUnavailable`. */
  close(): Promise<void>;
}

/** What a row of PostgreSQL's index can hold, a third of a page, with room to spare. */
export const maxKeyBytes = 2_600;

export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
}

export interface Range {
  /** The first key that may be returned. */
  readonly from: string;
  /** The first key that may not. */
  readonly to: string;
  readonly limit: number;
  readonly reverse?: boolean;
}

export interface Change {
  readonly key: string;
  /** Undefined: the key is deleted. */
  readonly value: Uint8Array | undefined;
  /** It must not lie in the open. Backends keep what they are given; `sealed.ts` gives them nothing that could. */
  readonly secret?: true;
  /** The revision that the key must be at, 0 for a key that must not be there; left out: whatever it is at. */
  readonly expect?: number;
}

/** What must be true beside what the changes expect: of a key that is not changed, or of everything in a range. */
export type Condition =
  | { readonly key: string; readonly expect: number }
  | { readonly empty: { readonly from: string; readonly to: string } };

export interface Commit {
  readonly revision: number;
  readonly changes: readonly Pick<Change, "key" | "value">[];
}

export interface Watcher {
  /** Told only of commits that change something in one of these, by the first parts of keys; left out: of all. */
  readonly spaces?: readonly string[];
  onCommit(commit: Commit): void;
  /**
   * What comes next is no longer known. The watch has ended: list anew, and watch again. Until a promise that it returns
   * resolves, it has not caught up.
   */
  onLost(): unknown;
}

export interface Watch {
  close(): void;
}

export interface Snapshot {
  readonly revision: number;
  /** In order, some at a time. */
  pages(): AsyncIterable<readonly Entry[]>;
  close(): Promise<void>;
}

export interface SnapshotContent {
  /** That of the snapshot: the next commit's is one more. */
  readonly revision: number;
  /** In order. */
  readonly pages: AsyncIterable<readonly Entry[]>;
}

/** The backup that a store was restored from. */
export interface Restoration {
  /** What has a later revision was written after the restore. */
  readonly backupRevision: number;
  /** When the backup was taken. */
  readonly backupAtMs: number;
  readonly restoredAtMs: number;
}

export interface ScrubStep {
  /** What was read, sound as far as the backend can tell. */
  readonly entries: readonly Entry[];
  /** What was found damaged, in words for an operator: a key, or a file. */
  readonly damaged: readonly string[];
}

export interface StoreStatus {
  readonly backend: string;
  /** Made with the store; a copy has another. */
  readonly storeId: string;
  readonly format: number;
  readonly revision: number;
  readonly writable: boolean;
  /** Why it is not, or why not everything in it can be read. */
  readonly reason: string | undefined;
  /**
   * Watchers may have been told of commits up to this revision that were lost since, and whose numbers were given to
   * other commits: a watcher that remembers such a revision cannot resume from it. Left out: of none.
   */
  readonly lostUpTo?: number;
}

export interface Space {
  readonly usedBytes: number;
  /** Left where it lies; undefined when the store cannot know. */
  readonly freeBytes: number | undefined;
}

/** Somebody else was first. Read again and decide anew. */
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

/** The store cannot make anything durable now. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** The commits asked for are no longer known. */
export class HistoryLost extends Error {
  override readonly name = "HistoryLost";
  readonly oldest: number;

  constructor(oldest: number) {
    super(`the history before revision ${oldest} is gone`);
    this.oldest = oldest;
  }
}

/** It holds something, or did: it cannot be filled. */
export class StoreUsed extends Error {
  override readonly name = "StoreUsed";
}

/** The store cannot be opened as it is, in a sentence for its operator with what to do about it. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}

/** What is stored is not what was written. */
export class StoreDamaged extends Error {
  override readonly name = "StoreDamaged";

  constructor(key: string, options?: ErrorOptions) {
    super(`the value of ${JSON.stringify(key)} is damaged`, options);
  }
}
