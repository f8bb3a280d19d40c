import { AsyncLocalStorage } from "node:async_hooks";

/** A process of the simulation: code that runs in it has its clocks, and stops when it is killed or paused. */
export class SimulatedProcess {
  readonly name: string;
  readonly bornAt: number;
  /** How fast its clocks run. */
  readonly rate: number;
  state: "running" | "paused" | "dead" = "running";
  /** How far its wall clock is ahead of the true time, and how far it was. */
  #aheadMs = 0;
  readonly #was: { readonly until: number; readonly aheadMs: number }[] = [];
  /** When its wall clock was last stepped. */
  steppedAt = Number.NEGATIVE_INFINITY;
  /** What happened to it while it was paused. */
  readonly missed: (() => void)[] = [];

  constructor(name: string, { bornAt, rate }: { readonly bornAt: number; readonly rate: number }) {
    this.name = name;
    this.bornAt = bornAt;
    this.rate = rate;
  }

  get aheadMs(): number {
    return this.#aheadMs;
  }

  /** Steps its wall clock. */
  stepTo(aheadMs: number, now: number): void {
    if (aheadMs === this.#aheadMs) return;
    this.steppedAt = now;
    this.#was.push({ until: now, aheadMs: this.#aheadMs });
    this.#aheadMs = aheadMs;
  }

  /** How far its wall clock was ahead at most, since then. */
  mostAheadMs(since: number): number {
    return Math.max(this.#aheadMs, ...this.#was.filter(({ until }) => until >= since).map(({ aheadMs }) => aheadMs));
  }
}

interface Happening {
  readonly at: number;
  readonly order: number;
  readonly process: SimulatedProcess | undefined;
  run: (() => void) | undefined;
}

const realImmediate = setImmediate;
const current = new AsyncLocalStorage<SimulatedProcess | undefined>();
/** Wall clocks run too fast or too slow between corrections, as NTP makes them. */
const setRightEveryMs = 600_000;
/** A Monday. */
const epochMs = Date.UTC(2030, 0, 7);

/** The time of the simulation: it passes only from one happening to the next, so that a seed always gives the same run. */
export class SimulatedTime {
  now = 0;
  /** Errors that would end a process. */
  readonly ends: { readonly process: string; readonly error: unknown }[] = [];
  happened = 0;
  readonly #heap: Happening[] = [];
  #order = 0;

  /** The process whose code runs. */
  get process(): SimulatedProcess | undefined {
    return current.getStore();
  }

  inside<T>(process: SimulatedProcess | undefined, run: () => T): T {
    return current.run(process, run);
  }

  /** The clocks of the process whose code runs. */
  monotonicMs(): number {
    const { process } = this;
    return process === undefined ? this.now : (this.now - process.bornAt) * process.rate;
  }

  wallMs(): number {
    const { process } = this;
    const driftMs = process === undefined ? 0 : (this.now % setRightEveryMs) * (process.rate - 1);
    return epochMs + this.now + driftMs + (process?.aheadMs ?? 0);
  }

  /** What the wall clock of a process showed at the latest, within this time. */
  latestWallMs(process: SimulatedProcess, withinMs: number): number {
    const driftMs = setRightEveryMs * Math.max(0, process.rate - 1);
    return epochMs + this.now + driftMs + process.mostAheadMs(this.now - withinMs);
  }

  trueWallMs(): number {
    return epochMs + this.now;
  }

  /** Calls back in true time, outside of all processes. Returns a function that cancels the call. */
  after(ms: number, run: () => void): () => void {
    return this.afterIn(undefined, ms, run);
  }

  /** Calls back in a process, later if it is paused then, never if it is dead. */
  afterIn(process: SimulatedProcess | undefined, ms: number, run: () => void): () => void {
    this.#order += 1;
    const happening: Happening = { at: this.now + Math.max(0, ms), order: this.#order, process, run };
    push(this.#heap, happening);
    return () => {
      happening.run = undefined;
    };
  }

  kill(process: SimulatedProcess): void {
    process.state = "dead";
    process.missed.length = 0;
  }

  resume(process: SimulatedProcess): void {
    if (process.state !== "paused") return;
    process.state = "running";
    for (const run of process.missed.splice(0)) this.afterIn(process, 0, run);
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms;
    await settled();
    for (;;) {
      const next = this.#heap[0];
      if (next === undefined || next.at > until) break;
      pop(this.#heap);
      const { process, run } = next;
      if (run === undefined || process?.state === "dead") continue;
      this.now = Math.max(this.now, next.at);
      if (process?.state === "paused") {
        process.missed.push(run);
        continue;
      }
      this.happened += 1;
      try {
        current.run(process, run);
      } catch (error) {
        this.ends.push({ process: process?.name ?? "the world", error });
      }
      await settled();
    }
    this.now = until;
  }

  /** Waits for a result while time passes; undefined if there is none within the time. */
  async await<T>(result: Promise<T>, withinMs: number): Promise<PromiseSettledResult<T> | undefined> {
    let outcome: PromiseSettledResult<T> | undefined;
    result.then(
      (value) => {
        outcome = { status: "fulfilled", value };
      },
      (reason: unknown) => {
        outcome = { status: "rejected", reason };
      },
    );
    await settled();
    const stepMs = 20;
    for (let passed = 0; outcome === undefined && passed < withinMs; passed += stepMs) await this.pass(stepMs);
    return outcome;
  }
}

/** Resolves when nothing runs that needs no time. */
const settled = (): Promise<void> => new Promise((resolve) => void realImmediate(resolve));

const isBefore = (one: Happening, other: Happening): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

function push(heap: Happening[], one: Happening): void {
  let at = heap.length;
  heap.push(one);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent];
    if (above === undefined || !isBefore(one, above)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = one;
}

function pop(heap: Happening[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    const left = 2 * at + 1;
    const [one, other] = [heap[left], heap[left + 1]];
    if (one === undefined) break;
    const isOther = other !== undefined && isBefore(other, one);
    const child = isOther ? other : one;
    if (!isBefore(child, last)) break;
    heap[at] = child;
    at = isOther ? left + 1 : left;
  }
  heap[at] = last;
}
