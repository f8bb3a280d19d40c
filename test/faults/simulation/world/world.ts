import { Database } from "./database.ts";
import { Link } from "./link.ts";
import { SimulatedProcess, SimulatedTime } from "./time.ts";

interface Hindrance {
  readonly what: object;
  readonly from: number;
  readonly until: number;
}

/** What is around the processes. There is one in a program, because the globals are replaced for it. */
export class World {
  readonly time = new SimulatedTime();
  /** Decides delays and the randomness of the code under test. */
  random: () => number = () => 0.5;
  readonly database = new Database({
    time: this.time,
    random: () => this.random(),
    count: (effect) => this.count(effect),
  });
  readonly links = new Map<string, Link>();
  /** Faults of processes, links and the database, with the times when they end by themselves. */
  hindrances: Hindrance[] = [];
  /** How often faults had an effect: what nothing notices, proves nothing. */
  readonly effects = new Map<string, number>();
  /** Things that must not happen. */
  readonly failures: string[] = [];

  count(effect: string, times = 1): void {
    this.effects.set(effect, (this.effects.get(effect) ?? 0) + times);
  }

  linkToDatabase = (process: string): Link => this.link(`${process} to the database`);

  link(name: string): Link {
    const known = this.links.get(name);
    if (known !== undefined) return known;
    const made = new Link({
      time: this.time,
      random: () => this.random(),
      count: (effect, times) => this.count(effect, times),
      name,
    });
    this.links.set(name, made);
    return made;
  }

  /** A process whose clocks may run a little too fast or too slow. */
  newProcess(name: string): SimulatedProcess {
    return new SimulatedProcess(name, { bornAt: this.time.now, rate: 1 + (this.random() - 0.5) * 0.002 });
  }

  /** Whether something kept a process from the database since then, for at least this time without a break. */
  wasHindered(process: SimulatedProcess, since: number, leastMs: number): boolean {
    const own: readonly unknown[] = [process, this.database, this.linkToDatabase(process.name)];
    return this.hindrances.some(
      ({ what, from, until }) =>
        own.includes(what) && Math.min(until, this.time.now) - Math.max(from, since) >= leastMs,
    );
  }

  fail(who: string, error: unknown): void {
    this.failures.push(`${who}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}

export const world = new World();
