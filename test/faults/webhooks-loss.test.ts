/**
 * Every acknowledged webhook is delivered. The long form is `npm run faults:webhooks`. To repeat: LATCHKEY_FAULT_SEED
 * with the seed that a run prints.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { startApplication } from "../support/peers/application.ts";
import { postgresForFile } from "../support/postgres/stores.ts";
import { faultSeed, seeded } from "../support/runner/seeded.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { calendarUri, sendRaw } from "../support/sidecar/receiving.ts";
import { createFaultyDisk } from "./disk.ts";
import { calm, moody } from "./loss/application.ts";
import { type LossOptions, type LossOutcome, runLoss } from "./loss/run.ts";
import { beginLife, type Life, metricAt, restOf, waitingAt } from "./loss/service.ts";
import { useDiskShim } from "./shim.ts";

const quiet = { kills: 0, power: 0, fullDisks: 0, clockSteps: 0 };

async function run(options: Partial<LossOptions>): Promise<LossOutcome> {
  const seed = faultSeed();
  const outcome = await runLoss({
    ...{ count: 2_000, senders: 64, seed, backend: "level", perDestination: 32, temper: moody, say: () => {} },
    ...quiet,
    ...options,
  });
  const { lost, wrong, ...figures } = outcome;
  console.log(`W02: ${lost.length} lost, seed ${seed}`, figures);
  return outcome;
}

/** Expectations for every run but the one that must lose data. */
function expectNothingLost(outcome: LossOutcome, count: number): void {
  expect(outcome.lost).toEqual([]);
  expect(outcome.wrong).toEqual([]);
  expect(outcome).toMatchObject({ sent: count, acknowledged: count, misled: 0 });
  expect(outcome.duplicates).toBeLessThanOrEqual(outcome.duplicatesAllowed);
}

/** Killed when the test has finished, if not before. */
async function begin(folder: string, env: Readonly<Record<string, string>>): Promise<Life> {
  const beginning = beginLife({ folder, env, clockOffsetMs: 0 });
  onTestFinished(() => beginning.kill());
  return beginning.ready();
}

/** An integration with connections that list one URI. Returns the path of its webhooks' URL. */
async function setUp(life: Life, connections: number): Promise<string> {
  await restOf(life, "POST", "/integrations", { unique_key: "calendar", provider: "calendar" });
  for (let from = 0; from < connections; from += 100) {
    const some = Array.from({ length: Math.min(100, connections - from) }, (_, i) => `user-${from + i}`);
    await Promise.all(
      some.map((connection_id) =>
        restOf(life, "POST", "/connections", {
          provider_config_key: "calendar",
          connection_id,
          credentials: { type: "OAUTH2", access_token: "token" },
          metadata: { calendarWatchResourceUris: [calendarUri("shared")] },
        }),
      ),
    );
  }
  const { data } = await restOf(life, "GET", "/integrations/calendar?include=webhook");
  return new URL(data.webhook_url).pathname;
}

const notificationOf = (number: number) => ({
  "x-cal-channel-id": "channel-1",
  "x-cal-resource-uri": calendarUri("shared"),
  "x-cal-resource-state": "exists",
  "x-cal-message-number": String(number),
});
const notify = (life: Life, path: string, number: number): Promise<number> =>
  sendRaw(`${life.data}${path}`, notificationOf(number));

it("W01 a webhook is delivered after a restart, though the sidecar was killed right after its 200", async () => {
  const kills = Number(process.env["LATCHKEY_FAULT_ROUNDS"] ?? 5);
  const random = seeded(faultSeed());
  const folder = await temporaryFolder();
  const application = await startApplication();
  const numbersSeen = () =>
    new Set(application.seen.map(({ body }) => Number(JSON.parse(body).payload["x-cal-message-number"])));
  // Accepted and never answered: nothing counts as delivered until the end.
  application.answer = () => {};
  const env = { LATCHKEY_FORWARD_URL: application.url };
  let life = await begin(folder, env);
  const path = await setUp(life, 1);
  for (let number = 1; number <= kills; number += 1) {
    expect(await notify(life, path, number)).toBe(200);
    // At once, or during its delivery.
    if (number % 2 === 0) await sleep(random() * 30);
    await life.kill();
    life = await begin(folder, env);
  }
  application.answer = (_, response) => void response.end();
  await life.kill();
  life = await begin(folder, env);
  await expect.poll(() => waitingAt(life)).toBe(0);
  expect([...numbersSeen()].sort((a, b) => a - b)).toEqual(Array.from({ length: kills }, (_, i) => i + 1));
}, 300_000);

it("W11 all deliveries of a webhook that matches 1,000 connections exist or none, whenever the sidecar is killed", async () => {
  const random = seeded(faultSeed());
  const folder = await temporaryFolder();
  const application = await startApplication();
  application.answer = () => {};
  const env = { LATCHKEY_FORWARD_URL: application.url };
  let life = await begin(folder, env);
  const path = await setUp(life, 1_000);
  const statuses: number[] = [];
  const found: number[] = [];
  for (let number = 1; number <= 4; number += 1) {
    // The duration, if there is an answer.
    const since = performance.now();
    const warm = await notify(life, path, 1_000 + number);
    const takesMs = performance.now() - since;
    expect(warm).toBe(200);
    const before = (await waitingAt(life)) ?? 0;
    const asked = notify(life, path, number).catch(() => 0);
    await sleep(random() * takesMs * 1.2);
    await life.kill();
    statuses.push(await asked);
    life = await begin(folder, env);
    found.push(((await waitingAt(life)) ?? 0) - before);
  }
  expect(found.filter((count) => count !== 0 && count !== 1_000)).toEqual([]);
  for (const [i, status] of statuses.entries()) if (status === 200) expect(found[i]).toBe(1_000);
  console.log(`W11: ${found.filter((count) => count > 0).length} of ${found.length} were stored`, statuses);
}, 300_000);

describe.skipIf(lacks("compiler"))("a disk that can be filled and lose its power", () => {
  const shim = useDiskShim();

  it("W02 nothing acknowledged is lost, whatever happens", async () => {
    const outcome = await run({ kills: 4, power: 2, fullDisks: 1, clockSteps: 3 });
    expectNothingLost(outcome, 2_000);
    expect(outcome.kills).toBeGreaterThanOrEqual(6);
    expect(outcome.diskErrors).toBeGreaterThan(0);
  }, 300_000);

  it("W02 a loss is detected when the store is not synced: otherwise this proves nothing", async () => {
    // So little that everything is in the log, which is lost.
    const outcome = await run({ count: 1_500, kills: 3, withoutSync: true, temper: calm });
    expect(outcome.lost.length).toBeGreaterThan(0);
  }, 300_000);

  it("a delivery made while the disk was full is not repeated", async () => {
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const application = await startApplication();
    const answers: (() => void)[] = [];
    application.answer = (_, response) => void answers.push(() => response.end());
    const life = await begin(folder, {
      ...disk.env,
      LATCHKEY_FORWARD_URL: application.url,
    });
    const path = await setUp(life, 20);
    expect(await notify(life, path, 1)).toBe(200);
    await application.got(20);
    disk.fail({ error: "ENOSPC", calls: ["write"] });
    await expect.poll(() => notify(life, path, 2)).toBe(503);
    for (const answer of answers.splice(0)) answer();
    await sleep(1_000);
    disk.heal();
    application.answer = (_, response) => void response.end();
    await expect.poll(() => waitingAt(life)).toBe(0);
    expect(application.seen).toHaveLength(20);
  });
});

describe.skipIf(lacks("postgres"))("two replicas on PostgreSQL", () => {
  const file = postgresForFile();

  it("deliver what a killed replica had in progress, within a lease, in the order of each channel", async () => {
    const leaseMs = 3_000;
    const folder = await temporaryFolder();
    const config = join(folder, "latchkey.yaml");
    // One at a time: they arrive in the order in which they started.
    writeFileSync(config, "webhooks: { per_destination: 1 }");
    const application = await startApplication();
    application.answer = () => {};
    const env = {
      LATCHKEY_CONFIG: config,
      LATCHKEY_STORE: file.server.storeUrl(file.newSchema()),
      LATCHKEY_FORWARD_URL: application.url,
      DELIVERY_LEASE_MS: String(leaseMs),
    };
    const one = await begin(folder, env);
    const path = await setUp(one, 1);
    await expect.poll(() => metricAt(one, "latchkey_partitions")).toBe(64);
    for (let number = 1; number <= 40; number += 1) expect(await notify(one, path, number)).toBe(200);
    await application.got(1);
    // The channel's partition stays where its first delivery is in progress.
    const other = await begin(folder, env);
    await one.kill();
    const killedAt = Date.now();
    application.answer = (_, response) => void response.end();
    await application.got(41, leaseMs + 60_000);
    expect((application.seen[1]?.at ?? 0) - killedAt).toBeLessThan(leaseMs + 30_000);
    await expect.poll(() => waitingAt(other)).toBe(0);
    const numbers = application.seen.map(({ body }) => Number(JSON.parse(body).payload["x-cal-message-number"]));
    // The first one was in progress, and is sent again.
    expect(numbers).toEqual([1, ...Array.from({ length: 40 }, (_, i) => i + 1)]);
  });

  it("W02 nothing is lost when one replica is killed repeatedly, and each channel stays in order", async () => {
    const leaseMs = 3_000;
    const options = { count: 1_500, kills: 4, backend: "postgres", temper: calm, perDestination: 1 } as const;
    const outcome = await run({ ...options, deliveryLeaseMs: leaseMs });
    expectNothingLost(outcome, 1_500);
    expect(outcome.overtaken).toBe(0);
  }, 300_000);
});
