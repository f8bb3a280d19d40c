/** A member of a `LiveSet`, of one at a time. */
export interface LiveMember {
  /** Written only by the set: the place in it, or -1. */
  place: number;
}

/**
 * A set for what comes and goes with every request. V8's Set and Map copy their table again and again as members change,
 * and each old table points to the next. Once one of them is in the old generation, all later tables survive with
 * everything that was in them: each young collection then copies whole requests, until a full collection ends the
 * chain. This set keeps one array.
 */
export class LiveSet<M extends LiveMember> {
  readonly #all: (M | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(one: LiveMember): boolean {
    return one.place !== -1 && this.#all[one.place] === one;
  }

  add(one: M): void {
    if (this.has(one)) return;
    one.place = this.#size;
    this.#all[this.#size] = one;
    this.#size += 1;
  }

  /** Returns whether it was a member. The last member takes its place. */
  delete(one: LiveMember): boolean {
    if (!this.has(one)) return false;
    const { place } = one;
    this.#size -= 1;
    const last = this.#all[this.#size];
    this.#all[this.#size] = undefined;
    one.place = -1;
    if (last !== undefined && last !== one) {
      this.#all[place] = last;
      last.place = place;
    }
    return true;
  }

  /** Returns a copy, so that members may leave while it is visited. */
  now(): M[] {
    return this.#all.slice(0, this.#size) as M[];
  }
}
