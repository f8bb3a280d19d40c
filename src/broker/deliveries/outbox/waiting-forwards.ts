import { type DestinationRef, destinationKey, type QueuedForward } from "./queued-forward.ts";

/** Waiting forwards by name, with their count for each destination and the oldest of them. */
export class WaitingForwards {
  readonly #byName = new Map<string, QueuedForward>();
  readonly #sizes = new Map<string, number>();
  /** The oldest waiting forward. Undefined: search all waiting forwards, if there are any. */
  #oldest: QueuedForward | undefined;

  get size(): number {
    return this.#byName.size;
  }

  sizeAt(destination: DestinationRef): number {
    return this.#sizes.get(destinationKey(destination)) ?? 0;
  }

  all(): Iterable<QueuedForward> {
    return this.#byName.values();
  }

  names(): Iterable<string> {
    return this.#byName.keys();
  }

  oldest(): QueuedForward | undefined {
    if (this.#oldest === undefined) {
      for (const one of this.#byName.values()) {
        if (this.#oldest === undefined || one.createdMs < this.#oldest.createdMs) this.#oldest = one;
      }
    }
    return this.#oldest;
  }

  put(forward: QueuedForward): void {
    const before = this.#byName.get(forward.name);
    if (before !== undefined) this.#count(before, -1);
    this.#count(forward, 1);
    this.#byName.set(forward.name, forward);
    if (before !== undefined && before === this.#oldest) this.#oldest = undefined;
    else if (this.#oldest !== undefined && forward.createdMs < this.#oldest.createdMs) this.#oldest = forward;
  }

  /** Removes a forward and returns it. */
  take(name: string): QueuedForward | undefined {
    const taken = this.#byName.get(name);
    if (taken === undefined) return undefined;
    this.#byName.delete(name);
    if (taken === this.#oldest) this.#oldest = undefined;
    this.#count(taken, -1);
    return taken;
  }

  #count(destination: DestinationRef, by: 1 | -1): void {
    const key = destinationKey(destination);
    const size = (this.#sizes.get(key) ?? 0) + by;
    if (size === 0) this.#sizes.delete(key);
    else this.#sizes.set(key, size);
  }
}
