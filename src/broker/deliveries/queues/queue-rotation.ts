import { Queue } from "../../../base/queue.ts";
import type { AttemptCapacity } from "./attempt-capacity.ts";
import type { DestinationQueue } from "./destination-queue.ts";

/** Destinations that may have a forward to start, in round-robin order. */
export class QueueRotation {
  readonly #capacity: AttemptCapacity;
  readonly #listed = new Queue<DestinationQueue>();
  /** Destinations that wait until fewer attempts run. */
  readonly #failing = new Set<DestinationQueue>();
  readonly #others = new Set<DestinationQueue>();

  constructor(capacity: AttemptCapacity) {
    this.#capacity = capacity;
  }

  /** Adds a destination at the end, unless the rotation has it already. */
  add(queue: DestinationQueue): void {
    if (queue.isListed) return;
    queue.isListed = true;
    this.#listed.push(queue);
  }

  /** Adds a destination whose attempt has ended, even if it waits for capacity: it may have room now. */
  addFreed(queue: DestinationQueue): void {
    if (this.#failing.has(queue) || this.#others.has(queue)) this.#remove(queue);
    this.add(queue);
  }

  /** Takes the next destination; those that waited for capacity come first once there is some. */
  next(): DestinationQueue | undefined {
    const [failing] = this.#capacity.hasRoomForFailing ? this.#failing : [];
    const [other] = this.#capacity.hasRoomForOthers ? this.#others : [];
    const queue = failing ?? other ?? this.#listed.shift();
    if (queue !== undefined) this.#remove(queue);
    return queue;
  }

  /** Sets a destination aside until there is capacity for it. */
  postpone(queue: DestinationQueue): void {
    queue.isListed = true;
    (queue.answers === false ? this.#failing : this.#others).add(queue);
  }

  #remove(queue: DestinationQueue): void {
    this.#failing.delete(queue);
    this.#others.delete(queue);
    queue.isListed = false;
  }
}
