/**
 * Five verbs over ordered keys with revisions, like etcd. A backend is whatever passes the conformance suite.
 *
 * Keys are well-formed strings, ordered by their UTF-8 bytes. Every commit takes the next revision, and every
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
   * that its change expects, or a condition does not hold at that moment, and with `StoreUnavailable` when it could not be made durable: then whether it
   * happened is unknown.
   */
  commit(changes: readonly Change[], conditions?: readonly Condition[]): Promise<number>;
  /**
   * Calls back with every commit after `from`, in order, none left out. Throws `HistoryLost` when those commits
   * are no longer known: then list anew, and watch from the revision the list was read at.
   */
  watch(from: number, onCommit: (commit: Commit) => void): Watch;
  /** The revision of the last commit, and whether the store takes more. */
  status(): StoreStatus;
  /** Waits for what is being committed. After it everything rejects with `StoreUnavailable`. */
  close(): Promise<void>;
}

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

export interface Watch {
  close(): void;
}

export interface StoreStatus {
  readonly backend: string;
  readonly revision: number;
  readonly writable: boolean;
  /** Why it is not. */
  readonly reason: string | undefined;
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
