import { DueHeap } from "../../base/due-heap.ts";
import { Queue } from "../../base/queue.ts";
import { DestinationQueue } from "./destination-queue.ts";
import { type Heading, headingKey, type QueuedForward } from "./outbox.ts";

/**
 * Chooses the next forward to attempt. Each destination has its own queue, so a destination that does not answer delays
 * no other. Within a destination, the first attempts of a lane run one after another, in order.
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
  look(): void;
  /** Drops all waiting forwards: another replica delivers them now. Running attempts still count. */
  clear(): void;
}

interface DestinationQueuesOptions {
  /** Limit of concurrent attempts to one destination. */
  readonly perLine: () => number;
  /** Limit of concurrent attempts in total. */
  readonly most: number;
  /** Returns whether the destination is paused. */
  readonly isHeld: (destination: Heading) => boolean;
}

export interface StartedDelivery {
  readonly waiting: QueuedForward;
  readonly line: object;
}

/** Tolerated clock change: a clock set back by less delays no forward for long. */
const noticedMs = 1_000;

/**
 * Limits the attempts to failing destinations. Hundreds of dead destinations, each with all its attempts, would use
 * every slot while they time out. Failing destinations therefore share half of the slots. Once half of all slots are
 * taken, a new destination gets one slot, and a destination that answers gets a quarter of its usual number.
 */
export function createDestinationQueues({ perLine, most, isHeld }: DestinationQueuesOptions): DestinationQueues {
  const queues = new Map<string, DestinationQueue>();
  /** Destinations that may have a forward to start, in round-robin order. */
  const listed = new Queue<DestinationQueue>();
  /** Destinations that wait until fewer attempts run. */
  const crowdedOut = { failing: new Set<DestinationQueue>(), others: new Set<DestinationQueue>() };
  /** The newest state of each forward by its name. Older states that are still queued are dropped when they come up. */
  const current = new Map<string, QueuedForward>();
  const begun = new Set<string>();
  const later = new DueHeap<QueuedForward>();
  /** The latest time seen. A much earlier time means that the clock was set back. */
  let latestMs = 0;
  let running = 0;
  /** Running attempts to destinations whose latest attempt failed. */
  let failing = 0;

  function queueOf(waiting: QueuedForward): DestinationQueue {
    const key = headingKey(waiting);
    const known = queues.get(key);
    if (known !== undefined) return known;
    const made = new DestinationQueue(waiting, perLine());
    queues.set(key, made);
    return made;
  }

  function list(queue: DestinationQueue): void {
    if (queue.isListed) return;
    queue.isListed = true;
    listed.push(queue);
  }

  function unlist(queue: DestinationQueue): void {
    crowdedOut.failing.delete(queue);
    crowdedOut.others.delete(queue);
    queue.isListed = false;
  }

  function allowedNow({ allowed, answers }: DestinationQueue): number {
    if (answers === false) return failing < most / 2 ? allowed : 0;
    if (running < most / 2) return allowed;
    return Math.min(allowed, answers === undefined ? 1 : Math.ceil(perLine() / 4));
  }

  function enter(waiting: QueuedForward): void {
    const queue = queueOf(waiting);
    queue.enter(waiting);
    list(queue);
  }

  const isCurrent = (waiting: QueuedForward): boolean =>
    current.get(waiting.name) === waiting && !begun.has(waiting.name);

  function nextListed(): DestinationQueue | undefined {
    const [failingOne] = failing < most / 2 ? crowdedOut.failing : [];
    const [other] = running < most / 2 ? crowdedOut.others : [];
    const queue = failingOne ?? other ?? listed.shift();
    if (queue !== undefined) unlist(queue);
    return queue;
  }

  function enterDue(nowMs: number): void {
    if (nowMs < latestMs - noticedMs) {
      later.recompute((waiting) => dueAt(waiting, nowMs));
      latestMs = nowMs;
    }
    latestMs = Math.max(latestMs, nowMs);
    for (let next = later.peek(); next !== undefined && next.dueMs <= nowMs; next = later.peek()) {
      later.pop();
      if (isCurrent(next.item)) enter(next.item);
    }
  }

  /** Starts the next forward of a queue that has room; undefined if the queue has none. */
  function beginFrom(queue: DestinationQueue): StartedDelivery | undefined {
    const waiting = queue.take(isCurrent);
    if (waiting === undefined) {
      const isUsual = queue.running === 0 && queue.allowed === perLine() && queue.answers !== false;
      if (isUsual) queues.delete(queue.key);
      return undefined;
    }
    list(queue);
    queue.running += 1;
    running += 1;
    if (queue.answers === false) failing += 1;
    begun.add(waiting.name);
    return { waiting, line: queue };
  }

  return {
    put(waiting, nowMs) {
      const { name } = waiting;
      const before = current.get(name);
      current.set(name, waiting);
      // A running forward is queued again when its attempt has ended.
      if (begun.has(name) || before === waiting) return;
      // A due forward bypasses the heap, which does not keep the order of equal times.
      const dueMs = dueAt(waiting, nowMs);
      if (dueMs <= nowMs) enter(waiting);
      else later.push(waiting, dueMs);
    },
    remove({ name }) {
      current.delete(name);
    },
    next(nowMs) {
      enterDue(nowMs);
      while (running < most) {
        const queue = nextListed();
        if (queue === undefined) return undefined;
        if (queue.running >= queue.allowed || isHeld(queue)) continue;
        if (queue.running >= allowedNow(queue)) {
          queue.isListed = true;
          (queue.answers === false ? crowdedOut.failing : crowdedOut.others).add(queue);
          continue;
        }
        const next = beginFrom(queue);
        if (next !== undefined) return next;
      }
      return undefined;
    },
    ended({ waiting, line }, succeeded) {
      const queue = line as DestinationQueue;
      if (queue.answers === false) failing -= queue.running;
      queue.running -= 1;
      running -= 1;
      if (waiting.first) queue.release(waiting);
      queue.allowed = succeeded ? Math.min(perLine(), queue.allowed + 1) : Math.max(1, Math.floor(queue.allowed / 2));
      queue.answers = succeeded;
      if (!succeeded) failing += queue.running;
      // This destination may have room now.
      if (crowdedOut.failing.has(queue) || crowdedOut.others.has(queue)) unlist(queue);
      begun.delete(waiting.name);
      const now = current.get(waiting.name);
      if (now !== undefined) later.push(now, dueAt(now, latestMs));
      list(queue);
    },
    look() {
      for (const queue of queues.values()) list(queue);
    },
    clear() {
      current.clear();
      later.clear();
      for (const queue of queues.values()) {
        queue.clear();
        list(queue);
      }
    },
  };
}

/**
 * Returns the due time by a clock that may have been set back since: no forward waits longer than its schedule meant.
 */
const dueAt = ({ dueMs, sinceMs }: QueuedForward, nowMs: number): number =>
  Math.min(dueMs, nowMs + Math.max(0, dueMs - sinceMs));
