import type { Books, Checkpoint } from "./books.ts";
import { kill } from "./brokers.ts";
import type { Fleet } from "./fleet.ts";
import type { Observer } from "./observer.ts";
import type { Link, LinkState } from "./world/link.ts";
import { world } from "./world/world.ts";

interface FaultsOptions {
  readonly fleet: Fleet;
  readonly books: Books;
  readonly observer: Observer;
  readonly random: () => number;
}

const hourMs = 3_600_000;

/** Does harm, and heals it. */
export class Faults {
  readonly counts = new Map<string, number>();
  /** When the last rollback was, in true time. */
  rolledBackAt = Number.NEGATIVE_INFINITY;
  readonly #options: FaultsOptions;
  #standby: Checkpoint | undefined;

  constructor(options: FaultsOptions) {
    this.#options = options;
  }

  breakLink(): string {
    const link = this.#pick([...world.links.values()]);
    if (link === undefined) return "no link";
    const state = this.#pick<LinkState>(["frozen", "frozen", "deaf", "mute", "cut"]) ?? "cut";
    this.#break(link, state, this.#long(200, 40_000));
    return this.#did(`link ${state}`, link.name);
  }

  #break(link: Link, state: LinkState, forMs: number): void {
    link.set(state);
    world.time.after(this.#hinder(link, forMs), () => link.state === state && link.set("up"));
  }

  /** A broker's next commit reaches the server when its time is over, or not at all: seldom so by chance. */
  delayCommit(): string {
    const broker = this.#pick([...this.#options.fleet.brokers.keys()]);
    if (broker === undefined) return "no broker";
    const link = world.linkToDatabase(broker);
    const forMs = this.#long(9_000, 16_000);
    link.beforeCommit = () => link.state === "up" && this.#break(link, "frozen", forMs);
    return this.#did("commit delayed", `of ${broker} by ${Math.round(forMs)} ms`);
  }

  slowLink(): string {
    const link = this.#pick([...world.links.values()]);
    if (link === undefined) return "no link";
    link.delayMs = this.#long(5, 800);
    world.time.after(this.#hinder(link, this.#long(500, 20_000)), () => (link.delayMs = 1));
    return this.#did("link slow", link.name);
  }

  slowDisk(): string {
    world.database.diskMs = this.#long(20, 4_000);
    const forMs = this.#hinder(world.database, this.#long(500, 15_000));
    world.time.after(forMs, () => (world.database.diskMs = 2));
    return this.#did("disk slow", `${Math.round(world.database.diskMs)} ms`);
  }

  failApplication(): string {
    const { peers } = this.#options.fleet;
    peers.isFailing = true;
    world.time.after(this.#long(500, 20_000), () => (peers.isFailing = false));
    return this.#did("application failing", "");
  }

  slowProvider(): string {
    const { peers } = this.#options.fleet;
    peers.delayMs = this.#long(100, 20_000);
    world.time.after(this.#long(500, 20_000), () => (peers.delayMs = 30));
    return this.#did("peers slow", `${Math.round(peers.delayMs)} ms`);
  }

  stepClock(): string {
    const { process, name } = this.#pick(this.#options.fleet.running()) ?? {};
    if (process === undefined) return "no clock";
    const by = this.#long(500, 2 * hourMs) * (this.#options.random() < 0.5 ? -1 : 1);
    process.stepTo(by, world.time.now);
    world.time.after(this.#long(1_000, 60_000), () => {
      if (process.aheadMs === by) process.stepTo(0, world.time.now);
    });
    return this.#did("clock stepped", `${name} by ${Math.round(by)} ms`);
  }

  pause(): string {
    const { process, name } = this.#pick(this.#options.fleet.running()) ?? {};
    if (process === undefined || process.state !== "running") return "nothing to pause";
    process.state = "paused";
    world.time.after(this.#hinder(process, this.#long(200, 40_000)), () => {
      world.count("events that paused processes missed", process.missed.length);
      world.time.resume(process);
    });
    return this.#did("process paused", name ?? "");
  }

  killBroker(): string {
    const running = this.#pick(
      [...this.#options.fleet.brokers.values()].filter(({ process }) => process.state !== "dead"),
    );
    if (running === undefined) return "no broker to kill";
    const isSilent = this.#options.random() < 0.3;
    this.#hinder(running.process, Number.POSITIVE_INFINITY);
    kill(running.process, { isSilent });
    world.time.after(this.#long(500, 30_000), () => this.#restartBroker(running.name));
    return this.#did(isSilent ? "machine lost" : "broker killed", running.name);
  }

  killEdge(): string {
    const running = this.#pick(
      [...this.#options.fleet.edges.values()].filter(({ process }) => process.state !== "dead"),
    );
    if (running === undefined) return "no edge to kill";
    kill(running.process, { isSilent: this.#options.random() < 0.3 });
    world.time.after(this.#long(500, 10_000), () => this.#options.fleet.startEdge(running.name));
    return this.#did("edge killed", running.name);
  }

  failOver(): string {
    if (!world.database.isUp) return "no server";
    const isOther = this.#options.random() < 0.5;
    world.database.fail({ contents: world.database.contents, isOther });
    const forMs = this.#hinder(world.database, this.#long(300, 20_000));
    world.time.after(forMs, () => (world.database.isUp = true));
    return this.#did(isOther ? "server failed over" : "server restarted", "");
  }

  /** A standby lags from now on. */
  lag(): string {
    const { contents } = world.database;
    this.#standby = this.#options.books.checkpoint(contents.copy(), world.time.now);
    return "a standby lags";
  }

  /** The standby that lags becomes the primary; or an older copy is put in the primary's place, which nothing tells. */
  rollBack(): string {
    const standby = this.#standby;
    if (standby === undefined || !world.database.isUp) return "no standby";
    const { books, observer } = this.#options;
    this.#standby = undefined;
    const isOther = this.#options.random() < 0.5;
    world.database.fail({ contents: standby.contents, isOther });
    books.rollBack(standby);
    observer.rolledBack();
    this.rolledBackAt = world.time.now;
    world.time.after(this.#long(100, 5_000), () => (world.database.isUp = true));
    // One broker may be away until others have written past what it saw.
    const isOneAway = this.#options.random() < 0.5;
    const broker = isOneAway ? this.#pick([...this.#options.fleet.brokers.keys()]) : undefined;
    if (broker !== undefined) this.#break(world.linkToDatabase(broker), "cut", this.#long(8_000, 40_000));
    const what = isOther ? "stale standby promoted" : "older copy put back";
    return this.#did(what, `at revision ${standby.contents.revision}`);
  }

  /** Afterwards no standby lags. */
  forgetStandby(): void {
    this.#standby = undefined;
  }

  #restartBroker(name: string): void {
    const { fleet } = this.#options;
    if (fleet.brokers.get(name)?.process.state === "dead") fleet.startBroker(name);
  }

  #pick<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#options.random() * all.length)];
  }

  #hinder(what: object, forMs: number): number {
    world.hindrances.push({ what, from: world.time.now, until: world.time.now + forMs });
    return forMs;
  }

  /** Short times are more frequent than long ones. */
  #long(leastMs: number, mostMs: number): number {
    return leastMs * (mostMs / leastMs) ** this.#options.random();
  }

  #did(kind: string, what: string): string {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    return `${kind} ${what}`;
  }
}
