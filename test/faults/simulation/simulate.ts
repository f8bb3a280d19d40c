import { below, seeded } from "../../support/runner/seeded.ts";
import { Callers } from "./actions.ts";
import { Books } from "./books.ts";
import { brokerStarts } from "./brokers.ts";
import { Checks } from "./checks.ts";
import { Faults } from "./faults.ts";
import { Fleet } from "./fleet.ts";
import { Observer } from "./observer.ts";
import { world } from "./world/world.ts";

interface SimulateOptions {
  readonly seed: number;
  readonly steps: number;
  readonly say: (line: string) => void;
}

export interface SimulateOutcome {
  readonly steps: number;
  readonly figures: Readonly<Record<string, string | number>>;
  readonly failures: readonly string[];
  /** The last steps before the first failure. */
  readonly last: readonly string[];
}

const stepsBetweenRests = 1_000;
const keptSteps = 30;

/** Does one random thing after another, lets time pass in between, and now and then heals everything and looks. */
export async function simulate({ seed, steps, say }: SimulateOptions): Promise<SimulateOutcome> {
  // Besides that of the world: the same things are done, whatever the code under test draws.
  const random = seeded(seed + 1);
  const fleet = new Fleet();
  const books = new Books();
  const observer = new Observer(fleet.peers.tokens);
  world.database.commits.observe = (commit) => observer.observe(commit);
  const faults = new Faults({ fleet, books, observer, random });
  const callers = new Callers({ fleet, books, random });
  const checks = new Checks({ fleet, books });
  for (let lane = 0; lane < 8; lane += 1) {
    books.lanes.push({ name: `lane-${lane}`, next: 1, isBusy: false, acknowledged: [] });
  }

  const ask = () => {
    const edge = callers.pick([...fleet.edges.values()]);
    const isLive = random() < 0.7;
    const keys = [...books.keys].filter(([, { register }]) => (register.acknowledged === "live") === isLive);
    const key = callers.pick(keys.slice(-12))?.[0];
    const wanted = random() < 0.7;
    const connections = [...books.connections.values()];
    const connection = callers.pick(
      connections.filter(({ register }) => (register.acknowledged !== "absent") === wanted).slice(-40),
    );
    return edge && key && connection ? checks.ask(edge, key, connection) : "no request";
  };
  const actions: readonly (readonly [weight: number, () => string])[] = [
    [30, ask],
    [10, () => callers.note()],
    [4, () => callers.connect()],
    [3, () => callers.disconnect()],
    [2, () => callers.makeKey()],
    [1, () => callers.revokeKey()],
    [1, () => callers.rotateKey()],
    [14, () => callers.deliver()],
    [2, () => faults.breakLink()],
    [1, () => faults.slowLink()],
    [0.5, () => faults.delayCommit()],
    [1, () => faults.slowDisk()],
    [1, () => faults.stepClock()],
    [0.5, () => faults.pause()],
    [0.5, () => faults.failApplication()],
    [0.3, () => faults.slowProvider()],
    [0.5, () => faults.killBroker()],
    [0.5, () => faults.killEdge()],
    [0.25, () => faults.failOver()],
    [2, () => faults.lag()],
    [0.5, () => faults.rollBack()],
  ];
  const total = actions.reduce((sum, [weight]) => sum + weight, 0);
  const next = () => {
    let at = random() * total;
    for (const [weight, action] of actions) {
      at -= weight;
      if (at < 0) return action;
    }
    return ask;
  };

  const last: string[] = [];
  let step = 0;
  let rests = 0;
  const note = (line: string) => {
    const text = `${String(step).padStart(6)} ${(world.time.now / 1_000).toFixed(3).padStart(10)}s ${line}`;
    say(text);
    last.push(text);
    if (last.length > keptSteps) last.shift();
  };
  const hasFailed = () => {
    for (const { process, error } of world.time.ends.splice(0)) world.fail(`${process} ended`, error);
    return world.failures.length > 0;
  };

  async function rest(): Promise<void> {
    note("all faults end");
    faults.forgetStandby();
    fleet.heal();
    await world.time.pass(15_000);
    await checks.partitions();
    await checks.settle();
    rests += 1;
    books.forgetAbsent();
  }

  fleet.startAll();
  await world.time.pass(5_000);
  for (; step < steps && !hasFailed(); step += 1) {
    note(next()());
    await world.time.pass(below(random, 4) === 0 ? random() * 1_000 : random() * 100);
    checks.look();
    if ((step + 1) % stepsBetweenRests === 0) await rest();
  }
  if (!hasFailed()) await rest();
  if (hasFailed()) for (const { name, logged } of fleet.running()) last.push(`${name}:`, ...logged.slice(-6));
  const { tokens } = fleet.peers;
  const kinds = [...faults.counts].map(([kind, count]) => `${count} ${kind}`).join(", ");
  const effects = [...world.effects].toSorted(([, one], [, other]) => other - one);
  return {
    steps: step,
    failures: world.failures,
    last,
    figures: {
      seed,
      steps: step,
      "simulated minutes": Math.round(world.time.now / 60_000),
      happenings: world.time.happened,
      rests,
      faults: kinds,
      effects: effects.map(([effect, count]) => `${count} ${effect}`).join(", "),
      "broker starts": brokerStarts(),
      "writes acknowledged": books.acknowledged,
      "writes failed": books.failed,
      "webhooks acknowledged": books.lanes.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0),
      "webhooks twice": fleet.peers.repeats(),
      "requests served": checks.served,
      "requests for what is gone": checks.gone,
      "tokens with a known end": checks.timed,
      "requests refused": [...checks.refusals].map(([code, count]) => `${count} ${code}`).join(", "),
      refreshes: `${observer.refreshes} stored, ${tokens.requests} requests, ${tokens.repeats} after a holder was gone`,
      "commits under fences": observer.fenced,
      "last revision": world.database.contents.revision,
    },
  };
}
