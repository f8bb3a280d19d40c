import { type Heading, headingKey, type Waiting } from "./outbox.ts";

/**
 * Who is next, of all forwards that wait: a line a destination, so that one that does not answer holds up nobody
 * else's. Within a line, first attempts of one lane are made one after another, in their order.
 */
export interface DeliveryLines {
  put(waiting: Waiting, nowMs: number): void;
  remove(waiting: Pick<Waiting, "name">): void;
  /** Begun: it is counted as under way until `ended`. Undefined: no line has one that is due and room for it. */
  next(nowMs: number): Begun | undefined;
  /** Whether it went well decides how many of its line may be under way. */
  ended(begun: Begun, wentWell: boolean): void;
  /** A destination that was held may be held no more. */
  look(): void;
  /** All that wait are for somebody else now. What is under way still is, and counts. */
  clear(): void;
}

interface DeliveryLinesOptions {
  /** How many may be under way to one destination. */
  readonly perLine: () => number;
  /** And to all of them. */
  readonly most: number;
  /** Nothing is begun there for now. */
  readonly isHeld: (destination: Heading) => boolean;
}

export interface Begun {
  readonly waiting: Waiting;
  readonly line: object;
}

interface Line extends Heading {
  readonly key: string;
  /** Those that were never tried. */
  readonly lanes: Map<string, Lane>;
  /** Lanes of which one can be begun. */
  turns: Queue<Lane>;
  /** Those that are tried again, and due. */
  again: Queue<Waiting>;
  underWay: number;
  allowed: number;
  /** Whether the latest attempt there went well; undefined: none has ended. */
  answers: boolean | undefined;
  taken: number;
  /** It stands among the lines that are looked at. */
  isListed: boolean;
}

interface Lane {
  readonly key: string;
  /** In their order. */
  readonly waiting: Waiting[];
  /** The first attempt of one of them is under way. */
  isBusy: boolean;
}

/** All that fails at a destination is tried one at a time there, and each success allows one more. */
export function createDeliveryLines({ perLine, most, isHeld }: DeliveryLinesOptions): DeliveryLines {
  const lines = new Map<string, Line>();
  /** Lines that may have something to begin, taken in turn. */
  const listed = new Queue<Line>();
  /** Those of them that wait until it is less crowded, in their turn. */
  const crowdedOut = { failing: new Set<Line>(), others: new Set<Line>() };
  /** By name: what is meant by it now. An older one that comes up in a queue is passed over. */
  const current = new Map<string, Waiting>();
  const begun = new Set<string>();
  const later = createDueHeap();
  /** The latest that it was, and not long ago: before it, the clock was set back. */
  let latestMs = 0;
  let underWay = 0;
  /** Of these, to destinations where the latest attempt failed. */
  let failing = 0;

  function lineOf(waiting: Waiting): Line {
    const { environment, address, overrideUrl } = waiting;
    const key = headingKey(waiting);
    const there = lines.get(key);
    if (there !== undefined) return there;
    const made: Line = {
      environment,
      address,
      overrideUrl,
      key,
      lanes: new Map(),
      turns: new Queue(),
      again: new Queue(),
      underWay: 0,
      allowed: perLine(),
      answers: undefined,
      taken: 0,
      isListed: false,
    };
    lines.set(key, made);
    return made;
  }

  function list(line: Line): void {
    if (line.isListed) return;
    line.isListed = true;
    listed.push(line);
  }

  /**
   * Dead destinations by the hundred, each with all that it may have, would take every place there is for as long as
   * they are waited for. So those that fail have half of the places between them; once half of all are taken, a new
   * destination has one, and one that answers a quarter of what it may have otherwise.
   */
  function allowedNow({ allowed, answers }: Line): number {
    if (answers === false) return failing < most / 2 ? allowed : 0;
    if (underWay < most / 2) return allowed;
    return Math.min(allowed, answers === undefined ? 1 : Math.ceil(perLine() / 4));
  }

  function enter(waiting: Waiting): void {
    const line = lineOf(waiting);
    if (waiting.first) {
      const lane = laneOf(line, waiting);
      lane.waiting.splice(placeIn(lane.waiting, waiting), 0, waiting);
      if (lane.waiting.length === 1 && !lane.isBusy) line.turns.push(lane);
    } else {
      line.again.push(waiting);
    }
    list(line);
  }

  function laneOf(line: Line, { lane, id }: Waiting): Lane {
    const key = lane === "" ? id : lane;
    const there = line.lanes.get(key);
    if (there !== undefined) return there;
    const made: Lane = { key, waiting: [], isBusy: false };
    line.lanes.set(key, made);
    return made;
  }

  function nextListed(): Line | undefined {
    const [failingOne] = failing < most / 2 ? crowdedOut.failing : [];
    const [other] = underWay < most / 2 ? crowdedOut.others : [];
    const line = failingOne ?? other ?? listed.shift();
    if (line !== undefined) comeBack(line);
    return line;
  }

  function comeBack(line: Line): void {
    crowdedOut.failing.delete(line);
    crowdedOut.others.delete(line);
    line.isListed = false;
  }

  function takeOf(line: Line): Waiting | undefined {
    for (;;) {
      // Those that come back do not push aside what has just come, nor the other way round.
      const isForAgain = line.turns.length === 0 || (line.again.length > 0 && line.taken % 5 === 4);
      line.taken += 1;
      const waiting = isForAgain ? line.again.shift() : takeFirst(line);
      if (waiting === undefined) return undefined;
      if (current.get(waiting.name) === waiting && !begun.has(waiting.name)) return waiting;
      if (waiting.first) leave(line, waiting);
    }
  }

  function takeFirst(line: Line): Waiting | undefined {
    const lane = line.turns.shift();
    if (lane === undefined) return undefined;
    lane.isBusy = true;
    return lane.waiting.shift();
  }

  /** The next of its lane may begin. */
  function leave(line: Line, waiting: Waiting): void {
    const lane = laneOf(line, waiting);
    lane.isBusy = false;
    if (lane.waiting.length > 0) line.turns.push(lane);
    else line.lanes.delete(lane.key);
  }

  return {
    put(waiting, nowMs) {
      const { name } = waiting;
      const before = current.get(name);
      current.set(name, waiting);
      // What is under way is entered again when it has ended, as it stands by then.
      if (begun.has(name) || before === waiting) return;
      // What has just come is entered as it came: a heap does not keep those of one moment in order.
      const dueMs = dueAt(waiting, nowMs);
      if (dueMs <= nowMs) enter(waiting);
      else later.push({ waiting, dueMs });
    },
    remove({ name }) {
      current.delete(name);
    },
    next(nowMs) {
      if (nowMs < latestMs - noticedMs) {
        later.reckonAnew((waiting) => dueAt(waiting, nowMs));
        latestMs = nowMs;
      }
      latestMs = Math.max(latestMs, nowMs);
      for (let next = later.peek(); next !== undefined && next.dueMs <= nowMs; next = later.peek()) {
        later.pop();
        const { waiting } = next;
        if (current.get(waiting.name) === waiting && !begun.has(waiting.name)) enter(waiting);
      }
      while (underWay < most) {
        const line = nextListed();
        if (line === undefined) return undefined;
        if (line.underWay >= line.allowed || isHeld(line)) continue;
        if (line.underWay >= allowedNow(line)) {
          line.isListed = true;
          (line.answers === false ? crowdedOut.failing : crowdedOut.others).add(line);
          continue;
        }
        const waiting = takeOf(line);
        if (waiting === undefined) {
          if (line.underWay === 0 && line.allowed === perLine() && line.answers !== false) lines.delete(line.key);
          continue;
        }
        list(line);
        line.underWay += 1;
        underWay += 1;
        if (line.answers === false) failing += 1;
        begun.add(waiting.name);
        return { waiting, line };
      }
      return undefined;
    },
    ended({ waiting, line: given }, wentWell) {
      const line = given as Line;
      if (line.answers === false) failing -= line.underWay;
      line.underWay -= 1;
      underWay -= 1;
      if (waiting.first) leave(line, waiting);
      line.allowed = wentWell ? Math.min(perLine(), line.allowed + 1) : Math.max(1, Math.floor(line.allowed / 2));
      line.answers = wentWell;
      if (!wentWell) failing += line.underWay;
      // It may be one by now that there is a place for.
      if (crowdedOut.failing.has(line) || crowdedOut.others.has(line)) comeBack(line);
      begun.delete(waiting.name);
      const now = current.get(waiting.name);
      if (now !== undefined) later.push({ waiting: now, dueMs: dueAt(now, latestMs) });
      list(line);
    },
    look() {
      for (const line of lines.values()) list(line);
    },
    clear() {
      current.clear();
      later.clear();
      for (const line of lines.values()) {
        for (const lane of line.lanes.values()) {
          lane.waiting.length = 0;
          if (!lane.isBusy) line.lanes.delete(lane.key);
        }
        line.turns = new Queue();
        line.again = new Queue();
        list(line);
      }
    },
  };
}

/** A clock that was set back by less than this keeps nobody waiting for long. */
const noticedMs = 1_000;

/** By a clock that may have been set back since it was settled: nobody waits longer than was meant. */
const dueAt = ({ dueMs, sinceMs }: Waiting, nowMs: number): number =>
  Math.min(dueMs, nowMs + Math.max(0, dueMs - sinceMs));

/** Behind all of its lane that come before it: by number where both have one, otherwise by when they were made. */
function placeIn(lane: readonly Waiting[], waiting: Waiting): number {
  let place = lane.length;
  while (place > 0 && comesBefore(waiting, lane[place - 1])) place -= 1;
  return place;
}

function comesBefore(a: Waiting, b: Waiting | undefined): boolean {
  if (b === undefined) return false;
  if (!isNumber(a.number) || !isNumber(b.number)) return a.createdMs < b.createdMs;
  // As many digits, as nearly all that come one after another have, compare as texts.
  return a.number.length === b.number.length ? a.number < b.number : BigInt(a.number) < BigInt(b.number);
}

const isNumber = (text: string): boolean => /^\d{1,30}$/.test(text);

/** First in, first out; what was taken is let go of in large pieces. */
class Queue<T> {
  #items: T[] = [];
  #at = 0;

  get length(): number {
    return this.#items.length - this.#at;
  }

  push(item: T): void {
    this.#items.push(item);
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

interface Due {
  readonly waiting: Waiting;
  readonly dueMs: number;
}

/** The earliest first. */
function createDueHeap() {
  let heap: Due[] = [];
  const isBefore = (i: number, j: number) => (heap[i]?.dueMs ?? 0) < (heap[j]?.dueMs ?? 0);
  const swap = (i: number, j: number) => {
    const [a, b] = [heap[i], heap[j]];
    if (a === undefined || b === undefined) return;
    heap[i] = b;
    heap[j] = a;
  };
  return {
    peek: (): Due | undefined => heap[0],
    clear(): void {
      heap = [];
    },
    reckonAnew(due: (waiting: Waiting) => number): void {
      // What is sorted is a heap.
      heap = heap.map(({ waiting }) => ({ waiting, dueMs: due(waiting) })).sort((a, b) => a.dueMs - b.dueMs);
    },
    push(one: Due): void {
      heap.push(one);
      for (let i = heap.length - 1; i > 0; ) {
        const parent = (i - 1) >> 1;
        if (!isBefore(i, parent)) return;
        swap(i, parent);
        i = parent;
      }
    },
    pop(): void {
      const last = heap.pop();
      if (last === undefined || heap.length === 0) return;
      heap[0] = last;
      for (let i = 0; ; ) {
        const [left, right] = [2 * i + 1, 2 * i + 2];
        const child = right < heap.length && isBefore(right, left) ? right : left;
        if (child >= heap.length || !isBefore(child, i)) return;
        swap(i, child);
        i = child;
      }
    },
  };
}
