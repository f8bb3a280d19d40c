import type { DestinationQueue } from "./destination-queue.ts";

interface AttemptCapacityOptions {
  /** Limit of concurrent attempts to one destination. */
  readonly mostPerDestination: () => number;
  /** Limit of concurrent attempts in total. */
  readonly most: number;
}

/**
 * Shares the attempts that may run at once between destinations. Hundreds of dead destinations, each with all its
 * attempts, would use every slot while they time out. Failing destinations therefore share half of the slots. Once half
 * of all slots are taken, a new destination gets one slot, and a destination that answers gets a quarter of its usual
 * number.
 */
export class AttemptCapacity {
  readonly #mostPerDestination: () => number;
  readonly #most: number;
  #running = 0;
  /** Running attempts to destinations whose latest attempt failed. */
  #failing = 0;

  constructor({ mostPerDestination, most }: AttemptCapacityOptions) {
    this.#mostPerDestination = mostPerDestination;
    this.#most = most;
  }

  get isFull(): boolean {
    return this.#running >= this.#most;
  }

  /** Whether less than half of the slots are taken by failing destinations. */
  get hasRoomForFailing(): boolean {
    return this.#failing < this.#most / 2;
  }

  /** Whether less than half of all slots are taken. */
  get hasRoomForOthers(): boolean {
    return this.#running < this.#most / 2;
  }

  /** Returns how many attempts a destination may have at once now. */
  allowedNow({ allowed, answers }: DestinationQueue): number {
    if (answers === false) return this.hasRoomForFailing ? allowed : 0;
    if (this.hasRoomForOthers) return allowed;
    return Math.min(allowed, answers === undefined ? 1 : Math.ceil(this.#mostPerDestination() / 4));
  }

  /** Returns whether nothing is known of a destination that a new queue would not assume too. */
  isUsual({ running, allowed, answers }: DestinationQueue): boolean {
    return running === 0 && allowed >= this.#mostPerDestination() && answers !== false;
  }

  begin(queue: DestinationQueue): void {
    queue.running += 1;
    this.#running += 1;
    if (queue.answers === false) this.#failing += 1;
  }

  /** Ends an attempt. Its success decides how many attempts the destination may have at once. */
  end(queue: DestinationQueue, succeeded: boolean): void {
    if (queue.answers === false) this.#failing -= queue.running;
    queue.running -= 1;
    this.#running -= 1;
    queue.allowed = succeeded
      ? Math.min(this.#mostPerDestination(), queue.allowed + 1)
      : Math.max(1, Math.floor(queue.allowed / 2));
    queue.answers = succeeded;
    if (!succeeded) this.#failing += queue.running;
  }
}
