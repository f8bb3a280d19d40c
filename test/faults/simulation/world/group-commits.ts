import type { Database, Session } from "./database.ts";
import { serverError } from "./database.ts";

interface ChangeRow {
  readonly key: string;
  readonly value: Buffer | undefined;
  readonly of: number;
}

interface ExpectationRow {
  readonly key: string;
  readonly revision: number | undefined;
  readonly of: number;
}

interface EmptyRow {
  readonly from: string;
  readonly to: string;
  readonly of: number;
}

/** A group of commits, as `commit_3` is given it. */
export interface CommitGroup {
  readonly count: number;
  readonly changes: readonly ChangeRow[];
  readonly expected: readonly ExpectationRow[];
  readonly empties: readonly EmptyRow[];
  readonly due: number;
  readonly session: number;
  readonly seenRevision: number | undefined;
  readonly seenMark: number | undefined;
  readonly mark: number;
}

/** A commit that happened, for those who check. */
export interface ObservedCommit {
  readonly by: Session["process"];
  readonly revision: number;
  readonly changes: readonly Pick<ChangeRow, "key" | "value">[];
  readonly conditions: readonly Omit<ExpectationRow, "of">[];
  /** Revisions of the changed keys before. */
  readonly before: ReadonlyMap<string, number>;
}

export type CommitRow = readonly [
  base: number | null,
  refused: number[] | null,
  staleKeys: Buffer[] | null,
  revisions: string[] | null,
];

const leftToOther: CommitRow = [null, null, null, null];
const turnWithinMs = 5_000;

/** The functions `commit_3` and `commit_waiting`: one process commits for those that wait in line. */
export class GroupCommits {
  /** Called for each commit. */
  observe: (commit: ObservedCommit) => void = () => {};
  readonly #database: Database;
  #isTaken = false;
  #line: (() => void)[] = [];
  readonly #left = new Map<number, { readonly group: CommitGroup; readonly by: Session["process"] }>();
  readonly #outcomes = new Map<number, CommitRow>();

  constructor(database: Database) {
    this.#database = database;
  }

  clear(): void {
    this.#isTaken = false;
    this.#line = [];
    this.#left.clear();
    this.#outcomes.clear();
  }

  async commit(group: CommitGroup, by: Session["process"]): Promise<CommitRow> {
    if (this.#isTaken) {
      this.#left.set(group.mark, { group, by });
      return leftToOther;
    }
    this.#isTaken = true;
    return this.#inTurn(group, by);
  }

  async outcomeOf(mark: number): Promise<CommitRow> {
    const { contents } = this.#database;
    if (this.#isTaken) await this.#turn();
    else this.#isTaken = true;
    const done = this.#outcomes.get(mark);
    const left = this.#left.get(mark);
    this.#outcomes.delete(mark);
    this.#left.delete(mark);
    if (done === undefined && left !== undefined) return this.#inTurn(left.group, left.by);
    if (this.#database.contents === contents) this.#next();
    if (done === undefined) throw serverError("LK004", "the server lost a group of commits that waited");
    return done;
  }

  async #inTurn(group: CommitGroup, by: Session["process"]): Promise<CommitRow> {
    const { contents } = this.#database;
    try {
      const check = () => this.#refuseStranger(group);
      return await this.#database.write(() => {
        const row = this.#apply(group, by);
        for (const [mark, left] of this.#left) this.#commitLeft(mark, left);
        return row;
      }, check);
    } finally {
      if (this.#database.contents === contents) this.#next();
    }
  }

  #commitLeft(mark: number, { group, by }: { readonly group: CommitGroup; readonly by: Session["process"] }): void {
    try {
      this.#refuseStranger(group);
    } catch {
      // Its own process is told why.
      return;
    }
    this.#outcomes.set(mark, this.#apply(group, by));
    this.#left.delete(mark);
  }

  #refuseStranger({ due, session, seenRevision, seenMark }: CommitGroup): void {
    const { contents } = this.#database;
    if (this.#database.nowMs() > due) throw serverError("LK001", "the commit comes too late");
    if (contents.endedSessions.has(session)) throw serverError("LK001", "the commit comes too late");
    const isKnown = seenRevision !== undefined && contents.marks.get(seenRevision) === seenMark;
    if (seenMark !== undefined && !isKnown && (seenRevision ?? 0) >= contents.pruned) {
      throw serverError("LK003", "the server lost commits");
    }
  }

  #apply(group: CommitGroup, by: Session["process"]): CommitRow {
    const { contents } = this.#database;
    const base = contents.revision;
    const refused: number[] = [];
    const staleKeys: Buffer[] = [];
    const staleRevisions: string[] = [];
    const refuse = (of: number, key: string, revision: number) => {
      refused.push(of);
      staleKeys.push(Buffer.from(key, "latin1"));
      staleRevisions.push(String(revision));
    };
    for (const { key, revision, of } of group.expected) {
      const current = contents.revisionOf(key);
      if (revision !== undefined && revision !== current) refuse(of, key, current);
    }
    for (const { from, to, of } of group.empties) {
      const [found] = contents.range(from, to);
      if (found !== undefined) refuse(of, found.key, found.revision);
    }
    const isRefused = new Set(refused);
    let accepted = 0;
    for (let of = 1; of <= group.count; of += 1) {
      if (isRefused.has(of)) continue;
      accepted += 1;
      const changes = group.changes.filter((change) => change.of === of);
      const before = new Map(changes.map(({ key }) => [key, contents.revisionOf(key)]));
      for (const { key, value } of changes) contents.put({ key, value, revision: base + accepted });
      const conditions = group.expected.filter((one) => one.of === of && one.revision !== undefined);
      this.observe({ by, revision: base + accepted, changes, conditions, before });
    }
    contents.revision = base + accepted;
    if (accepted > 0) contents.marks.set(contents.revision, group.mark);
    return refused.length === 0 ? [base, null, null, null] : [base, refused, staleKeys, staleRevisions];
  }

  async #turn(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const enter = () => {
      callOff();
      resolve();
    };
    const callOff = this.#database.time.after(turnWithinMs, () => {
      this.#line = this.#line.filter((one) => one !== enter);
      reject(serverError("55P03", "canceling statement due to lock timeout"));
    });
    this.#line.push(enter);
    await promise;
  }

  #next(): void {
    const next = this.#line.shift();
    if (next === undefined) this.#isTaken = false;
    else next();
  }
}
