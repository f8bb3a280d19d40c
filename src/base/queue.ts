/** A first-in, first-out queue. Taken items are removed in large batches, so that `shift` does not copy each time. */
export class Queue<T> {
  #items: T[] = [];
  #at = 0;

  get length(): number {
    return this.#items.length - this.#at;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  retain(isKept: (item: T) => boolean): void {
    this.#items = this.#items.slice(this.#at).filter(isKept);
    this.#at = 0;
  }

  shift(): T | undefined {
    if (this.#at === this.#items.length) return undefined;
    const item = this.#items[this.#at];
    this.#at += 1;
    if (this.#at > 1_024 || this.#at === this.#items.length) {
      this.#items = this.#items.slice(this.#at);
      this.#at = 0;
    }
    return item;
  }
}
