export interface DueItem<T> {
  readonly item: T;
  readonly dueMs: number;
}

/** Items by their due time, the earliest first (a binary heap). Items of the same time come in no order. */
export class DueHeap<T> {
  #heap: DueItem<T>[] = [];

  peek(): DueItem<T> | undefined {
    return this.#heap[0];
  }

  retain(isKept: (item: T) => boolean): void {
    // A sorted array is a heap.
    this.#heap = this.#heap.filter(({ item }) => isKept(item)).sort((a, b) => a.dueMs - b.dueMs);
  }

  /** Computes all due times again, for example after the clock was set back. */
  recompute(dueMsOf: (item: T) => number): void {
    // A sorted array is a heap.
    this.#heap = this.#heap.map(({ item }) => ({ item, dueMs: dueMsOf(item) })).sort((a, b) => a.dueMs - b.dueMs);
  }

  push(item: T, dueMs: number): void {
    this.#heap.push({ item, dueMs });
    for (let i = this.#heap.length - 1; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!this.#isBefore(i, parent)) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  pop(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2];
      const child = right < this.#heap.length && this.#isBefore(right, left) ? right : left;
      if (child >= this.#heap.length || !this.#isBefore(child, i)) return;
      this.#swap(i, child);
      i = child;
    }
  }

  #isBefore(i: number, j: number): boolean {
    return (this.#heap[i]?.dueMs ?? 0) < (this.#heap[j]?.dueMs ?? 0);
  }

  #swap(i: number, j: number): void {
    const [a, b] = [this.#heap[i], this.#heap[j]];
    if (a === undefined || b === undefined) return;
    this.#heap[i] = b;
    this.#heap[j] = a;
  }
}
