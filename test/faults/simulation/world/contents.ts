/** A row of the table of entries; keys are bytes, one to a character, so that they compare as PostgreSQL's do. */
export interface StoredRow {
  readonly key: string;
  readonly value: Buffer | undefined;
  readonly revision: number;
}

/** What a server has on its disk. It can be copied, as a standby has it, and taken again later. */
export class Contents {
  readonly rows = new Map<string, StoredRow>();
  keys: string[] = [];
  /** Every change, in order; those that were replaced are left out now and then. */
  changes: StoredRow[] = [];
  readonly marks = new Map<number, number>([[0, 1]]);
  readonly losses = new Set<number>();
  readonly endedSessions = new Set<number>();
  revision = 0;
  pruned = 0;

  copy(): Contents {
    const made = new Contents();
    for (const [key, row] of this.rows) made.rows.set(key, row);
    made.keys = [...this.keys];
    made.changes = [...this.changes];
    made.marks.clear();
    for (const [revision, mark] of this.marks) made.marks.set(revision, mark);
    for (const upTo of this.losses) made.losses.add(upTo);
    for (const session of this.endedSessions) made.endedSessions.add(session);
    made.revision = this.revision;
    made.pruned = this.pruned;
    return made;
  }

  /** The revision of a key that is there; 0 if it is not. */
  revisionOf(key: string): number {
    const row = this.rows.get(key);
    return row?.value === undefined ? 0 : row.revision;
  }

  put(row: StoredRow): void {
    if (!this.rows.has(row.key)) this.keys.splice(this.#placeOf(row.key), 0, row.key);
    this.rows.set(row.key, row);
    this.changes.push(row);
    if (this.changes.length <= 2 * this.rows.size + 1_000) return;
    this.changes = this.changes.filter((one) => this.rows.get(one.key) === one);
  }

  /** Returns the live rows of a range. */
  range(from: string, to: string | undefined, isReverse = false): StoredRow[] {
    const end = to === undefined ? this.keys.length : this.#placeOf(to);
    const keys = this.keys.slice(this.#placeOf(from), end);
    const rows = keys.flatMap((key) => this.rows.get(key) ?? []).filter(({ value }) => value !== undefined);
    return isReverse ? rows.reverse() : rows;
  }

  /** Returns current changes after a revision, the last revision whole. */
  changesAfter(revision: number, { before, limit, isWanted }: ChangesWanted): StoredRow[] {
    let [low, high] = [0, this.changes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.changes[middle]?.revision ?? 0) <= revision) low = middle + 1;
      else high = middle;
    }
    const found: StoredRow[] = [];
    for (let at = low; at < this.changes.length; at += 1) {
      const row = this.changes[at];
      if (row === undefined || row.revision >= before) break;
      if (found.length >= limit && found.at(-1)?.revision !== row.revision) break;
      if (this.rows.get(row.key) === row && isWanted(row.key)) found.push(row);
    }
    return found;
  }

  /** Removes what was deleted up to a revision. */
  prune(upTo: number): number {
    const gone = [...this.rows.values()].filter(({ value, revision }) => value === undefined && revision <= upTo);
    for (const { key } of gone) this.rows.delete(key);
    this.keys = this.keys.filter((key) => this.rows.has(key));
    return gone.length;
  }

  #placeOf(key: string): number {
    let [low, high] = [0, this.keys.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.keys[middle] ?? "") < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

interface ChangesWanted {
  readonly before: number;
  readonly limit: number;
  readonly isWanted: (key: string) => boolean;
}
