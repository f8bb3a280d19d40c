import { Queue } from "../../base/queue.ts";
import { type Heading, headingKey, type QueuedForward } from "./outbox.ts";

/** Forwards of one lane (one channel, for example) whose first attempts run one after another. */
interface OrderedQueue {
  readonly key: string;
  /** Waiting forwards, in order. */
  readonly waiting: QueuedForward[];
  /** True while the first attempt of a forward of this lane is running. */
  isBusy: boolean;
}

/** Ratio of first attempts to retries while both wait: neither kind delays the other. */
const attemptsPerRetry = 5;

/** The due forwards of one destination: first attempts by lane, in order, and retries. */
export class DestinationQueue implements Heading {
  readonly environment: Heading["environment"];
  readonly address: Heading["address"];
  readonly overrideUrl: Heading["overrideUrl"];
  readonly key: string;
  /** Number of running attempts. */
  running = 0;
  /** Limit of concurrent attempts: halved by each failure, raised by one after each success. */
  allowed: number;
  /** Whether the latest attempt succeeded; undefined if none has ended. */
  answers: boolean | undefined;
  /** True while the queue is in the list of queues to check. */
  isListed = false;
  readonly #lanes = new Map<string, OrderedQueue>();
  /** Lanes whose next first attempt may start. */
  #ready = new Queue<OrderedQueue>();
  #retries = new Queue<QueuedForward>();
  #taken = 0;

  constructor(heading: Heading, allowed: number) {
    this.environment = heading.environment;
    this.address = heading.address;
    this.overrideUrl = heading.overrideUrl;
    this.key = headingKey(heading);
    this.allowed = allowed;
  }

  enter(waiting: QueuedForward): void {
    if (!waiting.first) {
      this.#retries.push(waiting);
      return;
    }
    const lane = this.#laneOf(waiting);
    lane.waiting.splice(positionIn(lane.waiting, waiting), 0, waiting);
    if (lane.waiting.length === 1 && !lane.isBusy) this.#ready.push(lane);
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

  /** Ends the first attempt of a forward, so that the next forward of its lane may start. */
  release(waiting: QueuedForward): void {
    const lane = this.#laneOf(waiting);
    lane.isBusy = false;
    if (lane.waiting.length > 0) this.#ready.push(lane);
    else this.#lanes.delete(lane.key);
  }

  clear(): void {
    for (const lane of this.#lanes.values()) {
      lane.waiting.length = 0;
      if (!lane.isBusy) this.#lanes.delete(lane.key);
    }
    this.#ready = new Queue();
    this.#retries = new Queue();
  }

  #takeFirst(): QueuedForward | undefined {
    const lane = this.#ready.shift();
    if (lane === undefined) return undefined;
    lane.isBusy = true;
    return lane.waiting.shift();
  }

  #laneOf({ lane, id }: QueuedForward): OrderedQueue {
    const key = lane === "" ? id : lane;
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const made: OrderedQueue = { key, waiting: [], isBusy: false };
    this.#lanes.set(key, made);
    return made;
  }
}

/**
 * Returns the position after all forwards of the lane that come before: by message number if both have one, otherwise
 * by age.
 */
function positionIn(lane: readonly QueuedForward[], waiting: QueuedForward): number {
  let position = lane.length;
  while (position > 0 && comesBefore(waiting, lane[position - 1])) position -= 1;
  return position;
}

function comesBefore(a: QueuedForward, b: QueuedForward | undefined): boolean {
  if (b === undefined) return false;
  if (!isNumber(a.number) || !isNumber(b.number)) return a.createdMs < b.createdMs;
  // Numbers of the same length, as almost all neighbors have, compare as text.
  return a.number.length === b.number.length ? a.number < b.number : BigInt(a.number) < BigInt(b.number);
}

const isNumber = (text: string): boolean => /^\d{1,30}$/.test(text);
