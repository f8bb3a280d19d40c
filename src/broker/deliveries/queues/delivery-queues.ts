import { type DestinationRef, destinationKey, type QueuedForward } from "../outbox/queued-forward.ts";
import { AttemptCapacity } from "./attempt-capacity.ts";
import { DestinationQueue } from "./destination-queue.ts";
import { LaterForwards } from "./later-forwards.ts";
import { QueueRotation } from "./queue-rotation.ts";

/**
 * Chooses the next forward to attempt. Each destination has its own queue, so a destination that does not answer delays
 * no other. Within a destination, first attempts with the same order key run one after another, in order.
 */
export interface DestinationQueues {
  put(waiting: QueuedForward, nowMs: number): void;
  remove(waiting: Pick<QueuedForward, "name">): void;
  /**
   * Returns the next attempt, which counts as running until `ended`. Undefined if no destination has both a due forward
   * and room for it.
   */
  next(nowMs: number): StartedDelivery | undefined;
  /** Ends an attempt. Its success decides how many attempts the destination may have at once. */
  ended(begun: StartedDelivery, succeeded: boolean): void;
  /** Checks all destinations again: a paused destination may have been resumed. */
  checkAll(): void;
  /** Drops all other waiting forwards: another replica delivers them now. Running attempts still count. */
  retain(isKept: (waiting: QueuedForward) => boolean): void;
}

interface DestinationQueuesOptions {
  /** Limit of concurrent attempts to one destination. */
  readonly mostPerDestination: () => number;
  /** Limit of concurrent attempts in total. */
  readonly most: number;
  readonly isPaused: (destination: DestinationRef) => boolean;
}

export interface StartedDelivery {
  readonly waiting: QueuedForward;
  readonly queue: object;
}

export function createDestinationQueues(options: DestinationQueuesOptions): DestinationQueues {
  const { mostPerDestination, most, isPaused } = options;
  const queues = new Map<string, DestinationQueue>();
  const capacity = new AttemptCapacity({ mostPerDestination, most });
  const rotation = new QueueRotation(capacity);
  /** The newest state of each forward by its name. Older states that are still queued are dropped when they come up. */
  const current = new Map<string, QueuedForward>();
  const begun = new Set<string>();
  const later = new LaterForwards();

  function queueOf(waiting: QueuedForward): DestinationQueue {
    const key = destinationKey(waiting);
    const known = queues.get(key);
    if (known !== undefined) return known;
    const made = new DestinationQueue(waiting, mostPerDestination());
    queues.set(key, made);
    return made;
  }

  function enter(waiting: QueuedForward): void {
    const queue = queueOf(waiting);
    queue.enter(waiting);
    rotation.add(queue);
  }

  const isCurrent = (waiting: QueuedForward): boolean =>
    current.get(waiting.name) === waiting && !begun.has(waiting.name);

  function enterDue(nowMs: number): void {
    for (let due = later.takeDue(nowMs); due !== undefined; due = later.takeDue(nowMs)) {
      if (isCurrent(due)) enter(due);
    }
  }

  /** Starts the next forward of a queue that has room; undefined if the queue has none. */
  function beginFrom(queue: DestinationQueue): StartedDelivery | undefined {
    const waiting = queue.take(isCurrent);
    if (waiting === undefined) {
      if (capacity.isUsual(queue)) queues.delete(queue.key);
      return undefined;
    }
    rotation.add(queue);
    capacity.begin(queue);
    begun.add(waiting.name);
    return { waiting, queue };
  }

  return {
    put(waiting, nowMs) {
      const { name } = waiting;
      const before = current.get(name);
      current.set(name, waiting);
      // A running forward is queued again when its attempt has ended.
      if (begun.has(name) || before === waiting) return;
      // A due forward bypasses the heap, which does not keep the order of equal times.
      if (!later.addUnlessDue(waiting, nowMs)) enter(waiting);
    },
    remove({ name }) {
      current.delete(name);
    },
    next(nowMs) {
      enterDue(nowMs);
      while (!capacity.isFull) {
        const queue = rotation.next();
        if (queue === undefined) return undefined;
        // The limit may be lower than when the queue was made.
        if (queue.running >= Math.min(queue.allowed, mostPerDestination()) || isPaused(queue)) continue;
        if (queue.running >= capacity.allowedNow(queue)) {
          rotation.postpone(queue);
          continue;
        }
        const next = beginFrom(queue);
        if (next !== undefined) return next;
      }
      return undefined;
    },
    ended({ waiting, queue: ofAttempt }, succeeded) {
      const queue = ofAttempt as DestinationQueue;
      if (waiting.first) queue.release(waiting);
      capacity.end(queue, succeeded);
      begun.delete(waiting.name);
      const now = current.get(waiting.name);
      if (now !== undefined) later.add(now);
      rotation.addFreed(queue);
    },
    checkAll() {
      for (const queue of queues.values()) rotation.add(queue);
    },
    retain(isKept) {
      for (const [name, waiting] of current) if (!isKept(waiting)) current.delete(name);
      later.retain(isKept);
      for (const queue of queues.values()) {
        queue.retain(isKept);
        rotation.add(queue);
      }
    },
  };
}
