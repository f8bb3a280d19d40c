import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../src/base/fault.ts";
import type { LiveConnection } from "../../../src/broker/credentials/live-connections.ts";
import { partitionCount } from "../../../src/broker/partitions/partition-of.ts";
import { type Books, isExpected, type KnownConnection, type Register } from "./books.ts";
import type { RunningBroker } from "./brokers.ts";
import { askOnEdge, maxAwayMs, type RunningEdge, refOf } from "./edges.ts";
import type { Fleet } from "./fleet.ts";
import { openCalls, recentCalls } from "./world/edge-wire.ts";
import type { Link } from "./world/link.ts";
import { world } from "./world/world.ts";

interface ChecksOptions {
  readonly fleet: Fleet;
  readonly books: Books;
}

/** A broker knows for this long before its edges must, and with them everything is well for this long before. */
const soonMs = 1_000;
const wellForMs = 6_000;
/** An edge finds a frozen link after three heartbeats; its timers may be late. */
const noticedMs = 45_000;
const healedWithinMs = 60_000;
/** Then edges have what brokers have: a token that is refreshed for the comparison needs a moment to arrive. */
const agreedWithinMs = 10_000;
/** An edge compares its clock with its broker's by two heartbeats, and takes this difference for none. */
const clocksComparedMs = 35_000;
const clockToleranceMs = 3_000;
/** Calls that an edge may begin within ten seconds, whatever brokers do: each costs a broker work. */
const mostCalls = 40;
const callsWithinMs = 10_000;
/** The fourth wait of the schedule, with its jitter: a clock that was ahead for a while has used up those before. */
const deliveredWithinMs = 9_000_000;

/** Compares what processes do with what callers know. */
export class Checks {
  served = 0;
  /** Uses of tokens of which it was certain that they must not have ended. */
  timed = 0;
  /** Requests of which it was certain that their key or their connection is gone. */
  gone = 0;
  /** Refused requests by the code of their error. */
  readonly refusals = new Map<string, number>();
  readonly #fleet: Fleet;
  readonly #books: Books;
  /** Since when each broker has known of each change that took something away. */
  readonly #knownSince = new Map<Register, Map<RunningBroker, { readonly revision: number; readonly at: number }>>();
  /** Since when the way from an edge to the store has been whole. */
  readonly #wellSince: Follows = new Map();
  /** The same for the way to the broker alone, with clocks that nothing has set. */
  readonly #timedSince: Follows = new Map();

  constructor({ fleet, books }: ChecksOptions) {
    this.#fleet = fleet;
    this.#books = books;
  }

  /** Called after each step. */
  look(): void {
    this.#lookAtEdges();
    for (const register of this.#books.registers()) {
      if (register.acknowledged !== "absent" || register.revision === 0) {
        this.#knownSince.delete(register);
        continue;
      }
      const known = this.#knownSince.get(register) ?? new Map();
      this.#knownSince.set(register, known);
      for (const broker of this.#fleet.ready()) {
        const before = known.get(broker);
        if (before?.revision === register.revision || broker.broker === undefined) continue;
        const { revision } = broker.broker.storeStatus();
        if (revision >= register.revision) known.set(broker, { revision: register.revision, at: world.time.now });
      }
    }
  }

  #lookAtEdges(): void {
    for (const edge of this.#fleet.edges.values()) {
      const broker = this.#brokerOf(edge);
      note(this.#timedSince, edge, broker);
      note(this.#wellSince, edge, broker !== undefined && hasStore(broker) ? broker : undefined);
      const calls = recentCalls(edge.process, callsWithinMs);
      if (calls > mostCalls) world.fail(edge.name, `begins ${calls} calls within ${callsWithinMs} ms`);
    }
  }

  /** The broker that an edge follows without any hindrance between them; undefined if there is one. */
  #brokerOf(edge: RunningEdge): RunningBroker | undefined {
    if (edge.process.state !== "running" || edge.followed.away() !== undefined) return undefined;
    const calls = [...openCalls] as { readonly edge: object; readonly broker: object }[];
    const own = calls.filter((call) => call.edge === edge.process);
    const broker = [...this.#fleet.brokers.values()].find(({ process }) => process === own[0]?.broker);
    if (own.length !== 1 || broker === undefined || broker.process.state !== "running") return undefined;
    return isWell(world.link(`${edge.name} to ${broker.name}`)) ? broker : undefined;
  }

  /** A request through an edge: what was taken away must not be used. */
  ask(edge: RunningEdge, keyId: string, connection: KnownConnection): string {
    const key = this.#books.keys.get(keyId);
    if (key === undefined || edge.process.state !== "running") return "no request";
    const { integration, id } = connection;
    const isGone = [key.register, connection.register].map((register) => this.#mustBeGone(edge, register));
    if (isGone.includes(true)) this.gone += 1;
    const frozenMs = this.#frozenMs(edge);
    askOnEdge(edge, { secret: key.secret, integration, id }).then(
      (used) => {
        this.served += 1;
        this.#requireInTime(edge, used);
        if (isGone[0] === true) world.fail(edge.name, `serves the key ${keyId} that is gone`);
        if (isGone[1] === true) world.fail(edge.name, `serves the connection ${id} that is gone`);
        if (frozenMs > maxAwayMs + noticedMs) world.fail(edge.name, `serves ${id} without a broker for ${frozenMs} ms`);
      },
      (error: unknown) => {
        if (error instanceof Fault) this.refusals.set(error.code, (this.refusals.get(error.code) ?? 0) + 1);
        else world.fail(edge.name, error);
      },
    );
    return `request on ${edge.name} with ${keyId} for ${id}`;
  }

  /** By its broker's clock, what an edge uses has not ended. */
  #requireInTime(edge: RunningEdge, { credentials: { kind } }: LiveConnection): void {
    const timed = this.#timedSince.get(edge);
    if (timed === undefined || kind.case !== "oauth2" || kind.value.expiresAt === undefined) return;
    const { broker, since } = timed;
    const certainSince = Math.max(since, edge.process.steppedAt, broker.process.steppedAt) + clocksComparedMs;
    if (world.time.now < certainSince) return;
    this.timed += 1;
    const endedForMs = world.time.inside(broker.process, () => world.time.wallMs()) - timestampMs(kind.value.expiresAt);
    if (endedForMs < clockToleranceMs) return;
    world.fail(edge.name, `uses ${kind.value.accessToken}, which ended ${endedForMs} ms ago by ${broker.name}`);
  }

  #mustBeGone(edge: RunningEdge, register: Register): boolean {
    const well = this.#wellSince.get(edge);
    if (well === undefined || register.acknowledged !== "absent" || register.pending !== undefined) return false;
    const known = this.#knownSince.get(register)?.get(well.broker);
    const { now } = world.time;
    return register.tried.size === 0 && known !== undefined && now - known.at > soonMs && now - well.since > wellForMs;
  }

  /** For how long no byte of any broker can have come. */
  #frozenMs(edge: RunningEdge): number {
    const links = [...world.links.values()].filter(({ name }) => name.startsWith(`${edge.name} to `));
    if (links.some(({ state }) => state === "up" || state === "mute")) return 0;
    return world.time.now - Math.max(...links.map(({ since }) => since));
  }

  /** All faults have ended: everything must be as callers know, everywhere. */
  async settle(): Promise<void> {
    const problem =
      (await this.#until(() => this.#firstProblem(), healedWithinMs)) ??
      (await this.#clocksCompared().then(() => this.#firstDifference())) ??
      (await this.#until(async () => this.#lostWebhook(), deliveredWithinMs));
    if (problem !== undefined) world.fail("after all faults have ended", problem);
  }

  async #clocksCompared(): Promise<void> {
    for (let ms = 0; ms < clocksComparedMs + 1_000; ms += 500) {
      this.#lookAtEdges();
      await world.time.pass(500);
    }
  }

  async #until(find: () => Promise<string | undefined>, withinMs: number): Promise<string | undefined> {
    const until = world.time.now + withinMs;
    for (;;) {
      this.#lookAtEdges();
      const problem = await find();
      if (problem === undefined || world.time.now > until) return problem;
      await world.time.pass(500);
    }
  }

  async #firstProblem(): Promise<string | undefined> {
    for (const broker of this.#fleet.brokers.values()) {
      if (broker.broker === undefined) return `${broker.name} is not ready`;
      if (!broker.broker.storeStatus().writable) return `${broker.name}: ${broker.broker.storeStatus().reason}`;
      for (const check of [this.#keysOf, this.#connectionsOf]) {
        const problem = await check.call(this, broker);
        if (problem !== undefined) return `${broker.name}: ${problem}`;
      }
    }
    for (const { name, followed } of this.#fleet.edges.values()) {
      const away = followed.away();
      if (away !== undefined) return `${name} has no broker: ${away.reason}`;
    }
    return undefined;
  }

  async #keysOf({ process, broker }: RunningBroker): Promise<string | undefined> {
    for (const [id, { secret, register }] of this.#books.keys) {
      if (register.pending !== undefined) return `the key ${id} is being changed`;
      const given = Promise.resolve(world.time.inside(process, async () => broker?.access.authenticate(secret)));
      const outcome = await world.time.await(given, 10_000);
      const found = outcome?.status === "fulfilled" ? "live" : "absent";
      if (!isExpected(register, found)) return `the key ${id} is ${found}, and must be ${register.acknowledged}`;
    }
    return undefined;
  }

  async #connectionsOf({ process, broker }: RunningBroker): Promise<string | undefined> {
    for (const { integration, id, register } of this.#books.connections.values()) {
      if (register.pending !== undefined) return `the connection ${id} is being changed`;
      const got = world.time.inside(process, async () => broker?.connections.get(refOf(integration, id)));
      const outcome = await world.time.await(got, 10_000);
      const found = outcome?.status === "fulfilled" ? String(outcome.value?.value.metadata?.["n"]) : "absent";
      if (!isExpected(register, found)) {
        return `the connection ${id} is ${found}, and must be ${[register.acknowledged, ...register.tried].join(" or ")}`;
      }
    }
    return undefined;
  }

  /** Each edge has what brokers have, one connection after another. */
  async #firstDifference(): Promise<string | undefined> {
    const live = [...this.#books.keys].find(
      ([, { register }]) => register.acknowledged === "live" && register.tried.size === 0,
    );
    if (live === undefined) return undefined;
    for (const edge of this.#fleet.edges.values()) {
      for (const known of this.#books.connections.values()) {
        const find = () => this.#differenceOf(edge, { secret: live[1].secret, known });
        const difference = await this.#until(find, agreedWithinMs);
        if (difference !== undefined) return `${edge.name}: ${difference}`;
      }
    }
    return undefined;
  }

  async #differenceOf(
    edge: RunningEdge,
    { secret, known }: { readonly secret: string; readonly known: KnownConnection },
  ): Promise<string | undefined> {
    const { integration, id, register } = known;
    const [broker] = this.#fleet.ready();
    if (broker === undefined) return "no broker is ready";
    const ref = refOf(integration, id);
    const stored = await world.time.await(
      world.time.inside(broker.process, async () => broker.broker?.live.get(ref)),
      10_000,
    );
    const asked = await world.time.await(askOnEdge(edge, { secret, integration, id }), 10_000);
    if (asked?.status === "fulfilled") this.#requireInTime(edge, asked.value);
    const [wanted, got] = [stored, asked].map((one) =>
      one?.status === "fulfilled" ? secretOf(one.value?.credentials.kind.value) : "none",
    );
    // Nothing hinders a refresh now, so that what is there can be used.
    const isLive = register.acknowledged !== "absent" && register.tried.size === 0;
    if (isLive && wanted === "none") return `${broker.name} cannot use ${id}: ${reasonIn(stored)}`;
    const newest = integration === "tokens" && isLive ? this.#fleet.peers.tokens.newestOf(id) : undefined;
    if (newest !== undefined && newest !== wanted) return `the store has ${wanted}, and the provider issued ${newest}`;
    return wanted === got ? undefined : `it has ${got} of ${id}, and the store ${wanted} (${reasonIn(asked)})`;
  }

  #lostWebhook(): string | undefined {
    for (const { name, acknowledged, isBusy } of this.#books.lanes) {
      if (isBusy) return `${name} waits for an answer`;
      const arrived = this.#fleet.peers.arrived.get(name) ?? [];
      const places = new Map(arrived.map((number, at) => [number, at]));
      let last = -1;
      for (const number of acknowledged) {
        const place = places.get(number);
        const isAccepted = this.#fleet.peers.accepted.has(`${name} ${number}`);
        if (place === undefined || !isAccepted)
          return `webhook ${number} of ${name} was acknowledged and not delivered`;
        if (place < last) return `webhook ${number} of ${name} arrived after a later one`;
        last = place;
      }
    }
    return undefined;
  }

  /** Each partition has one owner, which keeps its term: without one it delivers nothing, and nobody else does. */
  async partitions(): Promise<void> {
    const brokers = [...this.#fleet.brokers.values()];
    for (const { name, delivers } of brokers) {
      if (!(await delivers())) world.fail(name, "after 15 s, it has no term, and delivers nothing");
    }
    const owned = await Promise.all(brokers.map(({ partitions }) => partitions()));
    const sum = owned.reduce((all, one) => all + one, 0);
    if (sum !== partitionCount) world.fail("partitions", `after 15 s, ${owned.join(" + ")} have an owner`);
  }
}

type Follows = Map<RunningEdge, { readonly broker: RunningBroker; readonly since: number }>;

/** Notes since when an edge has followed a broker. */
function note(follows: Follows, edge: RunningEdge, broker: RunningBroker | undefined): void {
  if (broker === undefined) follows.delete(edge);
  else if (follows.get(edge)?.broker !== broker) follows.set(edge, { broker, since: world.time.now });
}

const isWell = ({ state, delayMs }: Link): boolean => state === "up" && delayMs < 20;

const hasStore = ({ name }: RunningBroker): boolean =>
  isWell(world.linkToDatabase(name)) && world.database.isUp && world.database.diskMs < 20;

function secretOf(credentials: object | undefined): string {
  const { accessToken, apiKey } = (credentials ?? {}) as { readonly accessToken?: string; readonly apiKey?: string };
  return accessToken ?? apiKey ?? "nothing";
}

const reasonIn = (outcome: PromiseSettledResult<unknown> | undefined): string =>
  outcome === undefined ? "no answer" : outcome.status === "rejected" ? String(outcome.reason) : "answered";
