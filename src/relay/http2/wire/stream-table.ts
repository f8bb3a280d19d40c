/** A stream in the table of its connection. */
interface Listed {
  readonly id: number;
  /** Written only by the table: the next stream in the same row. */
  following: this | undefined;
}

const rowCount = 64;
/** The IDs of one side are every second number. */
const rowOf = (id: number): number => (id >>> 1) % rowCount;

/**
 * The open streams of a connection by ID. A Map would keep closed streams alive, as `LiveSet` explains. So would a
 * closed stream that points to an open one.
 */
export class StreamTable<S extends Listed> {
  readonly #rows: (S | undefined)[] = new Array<S | undefined>(rowCount).fill(undefined);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: number): S | undefined {
    let one = this.#rows[rowOf(id)];
    while (one !== undefined && one.id !== id) one = one.following;
    return one;
  }

  /** No other stream in the table may have the ID. */
  add(one: S): void {
    const row = rowOf(one.id);
    one.following = this.#rows[row];
    this.#rows[row] = one;
    this.#size += 1;
  }

  delete(id: number): void {
    const row = rowOf(id);
    let before: S | undefined;
    let one = this.#rows[row];
    while (one !== undefined && one.id !== id) {
      before = one;
      one = one.following;
    }
    if (one === undefined) return;
    if (before === undefined) this.#rows[row] = one.following;
    else before.following = one.following;
    one.following = undefined;
    this.#size -= 1;
  }

  /** Returns a copy, in the order of IDs, so that streams may close while it is visited. */
  now(): S[] {
    const all: S[] = [];
    for (const first of this.#rows) {
      for (let one = first; one !== undefined; one = one.following) all.push(one);
    }
    return all.sort((a, b) => a.id - b.id);
  }
}
