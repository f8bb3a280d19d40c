import { Queue } from "../../base/queue.ts";
import { type Heading, headingKey, type QueuedForward } from "./outbox.ts";

/** Forwards of one lane (one channel, for example) whose first attempts are made one after another. */
interface OrderedQueue {
  readonly key: string;
  /** In their order. */
  readonly waiting: QueuedForward[];
  /** The first attempt of one of them is running. */
  isBusy: boolean;
}

/** One retry for so many first attempts while both wait: neither kind holds up the other. */
const attemptsPerRetry = 5;

/** The due forwards of one destination: first attempts by lane, in order, and retries. */
export class DestinationQueue implements Heading {
  readonly environment: Heading["environment"];
  readonly address: Heading["address"];
  readonly overrideUrl: Heading["overrideUrl"];
  readonly key: string;
  /** Attempts that run now. */
  running = 0;
  /** Attempts that may run at once: halved by each failure, one more after each success. */
  allowed: number;
  /** Whether the latest attempt succeeded; undefined if none has ended. */
  answers: boolean | undefined;
  /** The queue is in the list of queues to look at. */
  isListed = false;
  readonly #lanes = new Map<string, OrderedQueue>();
  /** Lanes of which the next first attempt may begin. */
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

  /** The next forward that `isCurrent` accepts; others are dropped. */
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

  /** The first attempt of a forward has ended: the next of its lane may begin. */
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

/** Behind all forwards of its lane that come before it: by message number where both have one, otherwise by age. */
function positionIn(lane: readonly QueuedForward[], waiting: QueuedForward): number {
  let position = lane.length;
  while (position > 0 && comesBefore(waiting, lane[position - 1])) position -= 1;
  return position;
}

function comesBefore(a: QueuedForward, b: QueuedForward | undefined): boolean {
  if (b === undefined) return false;
  if (!isNumber(a.number) || !isNumber(b.number)) return a.createdMs < b.createdMs;
  // Numbers of the same length, as almost all neighbours have, compare as texts.
  return a.number.length === b.number.length ? a.number < b.number : BigInt(a.number) < BigInt(b.number);
}

const isNumber = (text: string): boolean => /^\d{1,30}$/.test(text);
