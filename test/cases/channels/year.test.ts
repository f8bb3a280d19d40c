import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it, onTestFinished } from "vitest";
import type { Misstep } from "../../../src/dev/sandbox/behaviour.ts";
import type { Channel } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionImportSchema, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { seeded } from "../../support/runner/seeded.ts";
import { dayMs, hourMs, provider, State, startWatching } from "./channels.ts";

/** Longer, and of more: `CHANNEL_DAYS=365`, `CHANNEL_CONNECTIONS=10000`. */
const days = Number(process.env["CHANNEL_DAYS"] ?? 12);
const many = Number(process.env["CHANNEL_CONNECTIONS"] ?? 50);
const stepMs = 2 * hourMs;
const few = 12;
/** Below this many it is chance whether one in fifty fails. */
const fewestRenewals = 300;

it(`lives through ${days} days with ${many} connections and a provider that fails one call in fifty, and none is without a channel for a minute`, {
  timeout: 36_000_000,
}, async () => {
  const life = await lives(many);
  const { clock, keep, requests } = life;
  const random = seeded(7);
  for (let passed = 0; passed < days * dayMs; passed += stepMs) {
    await life.misbehave(() => fateOf(random));
    clock.pass(stepMs);
    life.count();
    await keep();
    await life.hear();
  }
  const { made, shares, planned, withoutMs } = life.known();
  const calls = { watches: requests("watch"), stops: requests("stop") };
  // The planned calls: each first watch, each due renewal, and a stop of each replaced channel.
  const plan = { watches: many + planned, stops: planned };
  const ratio = (calls.watches + calls.stops) / (plan.watches + plan.stops);
  const failed = await life.failed();
  console.log({ days, many, made, ...calls, plan, ratio, failed, withoutMinutes: withoutMs / 60_000, shares });
  expect(withoutMs).toBe(0);
  expect(shares.least).toBeGreaterThanOrEqual(0.8);
  expect(shares.most).toBeLessThanOrEqual(0.85);
  expect(ratio).toBeLessThanOrEqual(1.1);
  expect(ratio).toBeGreaterThan(0.98);
  expect(life.alerts()).toEqual([]);
  expect(failed).toBeGreaterThan(0);
  // As many calls failed as configured.
  if (planned > fewestRenewals) expect(failed / (calls.watches + calls.stops)).toBeGreaterThan(0.01);
  expect(life.live()).toHaveLength(many);
});

it("misses notifications only in outages longer than the time left at renewal, and no longer", {
  timeout: 300_000,
}, async () => {
  const life = await lives(few);
  const { clock, keep } = life;
  /**
   * Outages of half a day and of two and a half days, when all channels are due. They have 25 to 34 hours left at
   * renewal.
   */
  const outages = [
    { fromMs: 5.5 * dayMs, toMs: 6 * dayMs },
    { fromMs: 11.5 * dayMs, toMs: 14 * dayMs },
  ];
  const withoutAfter: number[] = [];
  for (let passed = 0; passed < 16 * dayMs; passed += stepMs) {
    const outage = outages.find(({ fromMs, toMs }) => passed >= fromMs && passed < toMs);
    const away: Misstep = { kind: "error", status: 503, error: "backendError", description: "", headers: {} };
    life.answer(outage === undefined ? [] : [away]);
    clock.pass(stepMs);
    life.count();
    await keep();
    await life.hear();
    const isBack = outages.some(({ toMs }) => passed - toMs > 3 * hourMs && passed - toMs < dayMs);
    if (isBack) withoutAfter.push(few - life.covered());
    if (passed < 11 * dayMs) expect(life.known().withoutMs).toBe(0);
  }
  const { withoutMs } = life.known();
  console.log({ withoutHours: withoutMs / hourMs, alerts: life.alerts().length });
  // At least a day is left at renewal, and two tries are at most an hour and a quarter apart.
  expect(withoutMs).toBeGreaterThan(0);
  expect(life.longestMs()).toBeLessThanOrEqual((60 - 25 + 4) * hourMs);
  expect(new Set(withoutAfter)).toEqual(new Set([0]));
  expect(life.live()).toHaveLength(few);
});

it("renews all channels at a provider with room for one more, and loses none", {
  timeout: 300_000,
}, async () => {
  const life = await lives(few);
  const { clock, keep, requests } = life;
  life.sandbox.behave({ maxChannels: few + 1 });
  // They become due within nine hours, and several try where only one fits: only one renewal a step is certain.
  clock.pass(5.6 * dayMs);
  for (let hours = 0; hours < 30; hours += 2) {
    clock.pass(2 * hourMs);
    life.count();
    await keep();
    await life.hear();
  }
  const { made, withoutMs } = life.known();
  expect([made, withoutMs]).toEqual([2 * few, 0]);
  expect(requests("watch")).toBeGreaterThan(made);
  expect(life.live()).toHaveLength(few);
});

/** Creates connections with a channel each, and follows the channels at the provider. */
async function lives(connections: number) {
  // All channels watch one calendar: matched by its URI, each notification would go to every connection.
  const watching = await startWatching({ automatic: true, rules: { resource_uris_key: "" } });
  const { sandbox, clock, keep, live, sidecar } = watching;
  sandbox.behave({ accessTokenLifetimeS: 400 * 86_400, maxRefreshTokens: 2 * connections });
  const all = Array.from({ length: connections }, (_, i) => {
    // Each has its own tokens: unused connections are refreshed within the year, and shared refresh tokens would look
    // stolen.
    const { access_token, refresh_token } = sandbox.grant();
    return create(ConnectionImportSchema, {
      environment: "dev",
      integration: provider,
      id: `c${i}`,
      credentials: { kind: { case: "oauth2", value: { accessToken: access_token, refreshToken: refresh_token } } },
    });
  });
  for (let at = 0; at < all.length; at += 500) {
    await sidecar.client(ConnectionService).batchImportConnections({ connections: all.slice(at, at + 500) });
  }

  /** The connection of each channel, and when it is due, from the watch stream. */
  const owners = new Map<string, string>();
  const dueAt = new Map<string, number>();
  const shares = { least: 1, most: 0 };
  const ended = new AbortController();
  const followed = (async () => {
    const steps = watching.rpc().watchChannels({ environment: "dev" }, { signal: ended.signal });
    for await (const { event } of steps) {
      if (event.case === "put") learn(event.value);
    }
  })().catch((error: unknown) => {
    if (!ended.signal.aborted) throw error;
  });
  onTestFinished(() => followed);
  onTestFinished(() => ended.abort());

  function learn({ id, connection, state, renewAt, expiresAt, createdAt }: Channel): void {
    owners.set(id, connection?.id ?? "");
    if (state !== State.ACTIVE || renewAt === undefined || expiresAt === undefined || createdAt === undefined) return;
    if (dueAt.has(id)) return;
    const [made, due, end] = [createdAt, renewAt, expiresAt].map((at) => timestampMs(at)) as [number, number, number];
    dueAt.set(id, due);
    const share = (due - made) / (end - made);
    shares.least = Math.min(shares.least, share);
    shares.most = Math.max(shares.most, share);
  }

  /** When each connection's channels expire, at the last look. */
  let until = new Map<string, number>();
  const spells = new Map<string, number>();
  let withoutMs = 0;
  let longestMs = 0;
  let countedAt = clock.now();

  async function hear(): Promise<void> {
    const alive = live();
    await expect.poll(() => alive.every(({ id }) => owners.has(id))).toBe(true);
    until = new Map();
    for (const { id, expiration } of alive) {
      const owner = owners.get(id) ?? "";
      until.set(owner, Math.max(until.get(owner) ?? 0, expiration));
    }
  }

  let failed = 0;
  const row = (length: number, fate: () => Misstep) =>
    Array.from({ length }, () => {
      const misstep = fate();
      if (misstep.kind !== "ordinary") failed += 1;
      return { ...misstep, times: 1 };
    });

  await keep();
  expect(live()).toHaveLength(connections);
  await hear();
  /** The configured failures of the last step that did not occur. */
  const left = async () => {
    const shown = await sandbox.get("/_sandbox/behaviour");
    const { answers } = (await shown.json()) as { answers: Record<string, readonly { readonly kind: string }[]> };
    return Object.values(answers)
      .flat()
      .filter(({ kind }) => kind !== "ordinary").length;
  };

  return {
    ...watching,
    hear,
    async misbehave(fate: () => Misstep) {
      failed -= await left();
      const length = 2 * Math.ceil(connections / 5) + 20;
      sandbox.behave({ answers: { watch: row(length, fate), stop: row(length, fate) } });
    },
    answer: (watch: Misstep[]) => sandbox.behave({ answers: { watch } }),
    failed: async () => failed - (await left()),
    /** Adds the time since the last look that each connection spent without a channel. */
    count() {
      const now = clock.now();
      for (const { id } of all) {
        const spell = Math.max(0, now - Math.max(countedAt, until.get(id) ?? 0));
        withoutMs += spell;
        const together = spell === 0 ? 0 : (spells.get(id) ?? 0) + spell;
        spells.set(id, together);
        longestMs = Math.max(longestMs, together);
      }
      countedAt = now;
    },
    covered: () => all.filter(({ id }) => (until.get(id) ?? 0) > clock.now()).length,
    longestMs: () => longestMs,
    alerts: () => watching.forwards("channel"),
    known: () => ({
      made: dueAt.size,
      shares,
      withoutMs,
      planned: [...dueAt.values()].filter((due) => due <= clock.now()).length,
    }),
  };
}

/** Fails one call in fifty, in one of several ways. */
function fateOf(random: () => number): Misstep {
  if (random() >= 0.02) return { kind: "ordinary" };
  const fate = random();
  const error = { kind: "error" as const, description: "", headers: {} };
  if (fate < 0.4) return { ...error, status: 503, error: "backendError" };
  return fate < 0.7 ? { ...error, status: 429, error: "rateLimitExceeded" } : { kind: "drop-answer" };
}
