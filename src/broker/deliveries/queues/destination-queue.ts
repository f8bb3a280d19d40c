import { Queue } from "../../../base/queue.ts";
import { type DestinationRef, destinationKey, type QueuedForward } from "../outbox/queued-forward.ts";

/** Forwards with one order key (those of one channel, for example), whose first attempts run one after another. */
interface OrderedQueue {
  readonly key: string;
  /** Waiting forwards, in order. */
  readonly waiting: QueuedForward[];
  /** True while the first attempt of one of these forwards is running. */
  isBusy: boolean;
}

/** Ratio of first attempts to retries while both wait: neither kind delays the other. */
const attemptsPerRetry = 5;

/** The due forwards of one destination: first attempts, in order for each order key, and retries. */
export class DestinationQueue implements DestinationRef {
  readonly environment: DestinationRef["environment"];
  readonly address: DestinationRef["address"];
  readonly overrideUrl: DestinationRef["overrideUrl"];
  readonly key: string;
  /** Number of running attempts. */
  running = 0;
  /** Limit of concurrent attempts: halved by each failure, raised by one after each success. */
  allowed: number;
  /** Whether the latest attempt succeeded; undefined if none has ended. */
  answers: boolean | undefined;
  /** True while the queue is in the list of queues to check. */
  isListed = false;
  readonly #ordered = new Map<string, OrderedQueue>();
  /** Ordered queues whose next first attempt may start. */
  readonly #ready = new Queue<OrderedQueue>();
  readonly #retries = new Queue<QueuedForward>();
  #taken = 0;

  constructor(destination: DestinationRef, allowed: number) {
    this.environment = destination.environment;
    this.address = destination.address;
    this.overrideUrl = destination.overrideUrl;
    this.key = destinationKey(destination);
    this.allowed = allowed;
  }

  enter(waiting: QueuedForward): void {
    if (!waiting.first) {
      this.#retries.push(waiting);
      return;
    }
    const ordered = this.#orderedOf(waiting);
    ordered.waiting.splice(positionIn(ordered.waiting, waiting), 0, waiting);
    if (ordered.waiting.length === 1 && !ordered.isBusy) this.#ready.push(ordered);
  }

  /** Takes the next forward that `isCurrent` accepts; drops the others. */
  take(isCurrent: (waiting: QueuedForward) => boolean): QueuedForward | undefined {
    for (;;) {
      const isRetry =
        this.#ready.length === 0 ||
        (this.#retries.length > 0 && this.#taken % attemptsPerRetry === attemptsPerRetry - 1);
      this.#taken += 1;
      const waiting = isRetry ? this.#retries.shift() : this.#takeFirst();
      if (waiting === undefined || isCurrent(waiting)) return waiting;
      if (waiting.first) this.release(waiting);
    }
  }

  /** Ends the first attempt of a forward, so that the next one with its order key may start. */
  release(waiting: QueuedForward): void {
    const ordered = this.#orderedOf(waiting);
    ordered.isBusy = false;
    if (ordered.waiting.length > 0) this.#ready.push(ordered);
    else this.#ordered.delete(ordered.key);
  }

  retain(isKept: (waiting: QueuedForward) => boolean): void {
    for (const ordered of this.#ordered.values()) {
      // The forwards of one order key are kept together.
      if (ordered.waiting.every(isKept)) continue;
      ordered.waiting.length = 0;
      if (!ordered.isBusy) this.#ordered.delete(ordered.key);
    }
    this.#ready.retain(({ waiting }) => waiting.length > 0);
    this.#retries.retain(isKept);
  }

  #takeFirst(): QueuedForward | undefined {
    const ordered = this.#ready.shift();
    if (ordered === undefined) return undefined;
    ordered.isBusy = true;
    return ordered.waiting.shift();
  }

  #orderedOf({ orderKey, id }: QueuedForward): OrderedQueue {
    const key = orderKey === "" ? id : orderKey;
    const known = this.#ordered.get(key);
    if (known !== undefined) return known;
    const made: OrderedQueue = { key, waiting: [], isBusy: false };
    this.#ordered.set(key, made);
    return made;
  }
}

/**
 * Returns the position after all forwards that come before: by message number if both have one, otherwise by age.
 */
function positionIn(ordered: readonly QueuedForward[], waiting: QueuedForward): number {
  let position = ordered.length;
  while (position > 0 && comesBefore(waiting, ordered[position - 1])) position -= 1;
  return position;
}

function comesBefore(a: QueuedForward, b: QueuedForward | undefined): boolean {
  if (b === undefined) return false;
  if (!isNumber(a.number) || !isNumber(b.number)) return a.createdMs < b.createdMs;
  // Numbers of the same length, as almost all neighbors have, compare as text.
  return a.number.length === b.number.length ? a.number < b.number : BigInt(a.number) < BigInt(b.number);
}

const isNumber = (text: string): boolean => /^\d{1,30}$/.test(text);
