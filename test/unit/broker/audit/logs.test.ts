import { toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { defaultRetention } from "../../../../src/config/retention.ts";
import { LogSchema } from "../../../../src/gen/latchkey/v1/log_pb.ts";
import { type OpenBroker, openTestBroker } from "../open-broker.ts";
import { type TestWorld, testWorld } from "../world.ts";

const hour = 3_600_000;
const day = 24 * hour;

interface About {
  readonly environment?: string;
  readonly integration?: string;
  readonly connectionId?: string;
  readonly operation?: string;
  readonly failed?: boolean;
}

async function write({ broker }: OpenBroker, { failed = false, ...about }: About = {}): Promise<string> {
  const subject = { operation: "auth.refresh", environment: "dev", integration: "calendar", secrets: [], ...about };
  const log = broker.logs.begin(subject);
  log.info("something was done");
  await log.end({ failed }).write();
  return log.id;
}

const filter = { environment: "dev", integration: "", connectionId: "", operation: "", failed: false };

async function list({ broker }: OpenBroker, asked: About = {}, size = 1_000): Promise<string[]> {
  const seen: string[] = [];
  let token = "";
  do {
    const { items, next } = await broker.logs.list({ ...filter, ...asked }, { size, token });
    seen.push(...items.map(({ id }) => id));
    token = next;
  } while (token !== "");
  return seen;
}

/** Rounds of housekeeping, a minute apart. */
async function keepHouse({ broker }: OpenBroker, world: TestWorld, rounds = 1): Promise<void> {
  for (let i = 0; i < rounds; i += 1) {
    world.advance(60_000);
    await broker.keepHouse();
  }
}

/** All keys of logs in the store. */
const keysLeft = async ({ store }: OpenBroker) =>
  (await store.list({ from: "log", to: "log~", limit: 100_000 })).length;

it("lists the newest first, with any filter, page by page", async () => {
  const open = await openTestBroker(testWorld());
  const ids: Record<string, string> = {};
  for (const [name, about] of Object.entries({
    a: { connectionId: "ada" },
    b: { connectionId: "ada", failed: true },
    c: { connectionId: "bob", failed: true, operation: "auth.expire" },
    d: { integration: "mail", connectionId: "ada" },
    e: { integration: "", failed: true, operation: "webhook.deliver" },
  })) {
    ids[name] = await write(open, about);
  }
  const named = async (asked: About, size?: number) =>
    (await list(open, asked, size)).map((id) => Object.keys(ids).find((name) => ids[name] === id)).join("");
  for (const size of [1, 2, 1_000]) {
    expect(await named({}, size)).toBe("edcba");
    expect(await named({ integration: "calendar" }, size)).toBe("cba");
    expect(await named({ integration: "calendar", connectionId: "ada" }, size)).toBe("ba");
    expect(await named({ failed: true }, size)).toBe("ecb");
    expect(await named({ failed: true, integration: "calendar", operation: "auth.refresh" }, size)).toBe("b");
    expect(await named({ operation: "auth.expire" }, size)).toBe("c");
    expect(await named({ environment: "other" }, size)).toBe("");
    expect(await named({ integration: "cal\0" }, size)).toBe("");
  }
});

it("ends a page before it is too large, and continues after it", async () => {
  const open = await openTestBroker(testWorld());
  const ids: string[] = [];
  for (let i = 0; i < 5; i += 1) ids.push(await write(open));
  const first = await open.broker.logs.list(filter, { size: 100, token: "", maxBytes: 1 });
  expect(first.items.map(({ id }) => id)).toEqual([ids[4]]);
  const rest = await open.broker.logs.list(filter, { size: 100, token: first.next });
  expect(rest.items.map(({ id }) => id)).toEqual([ids[3], ids[2], ids[1], ids[0]]);
});

it("keeps how a long log began and how it ended, and no more than so much of either", async () => {
  const world = testWorld();
  const { broker } = await openTestBroker(world);
  const log = broker.logs.begin({ operation: "auth.refresh", environment: "dev", secrets: [] });
  for (let i = 1; i <= 100_000; i += 1) log.info("a line", { attempt: i, detail: "word ".repeat(i % 200) });
  await log.end({ failed: true, last: [{ level: "error", sentence: "the end", fields: {} }] }).write();
  const kept = await broker.logs.get({ environment: "dev", id: log.id });
  expect(kept.truncated).toBe(true);
  expect(kept.lines[0]?.fields).toMatchObject({ attempt: 1 });
  expect(kept.lines.at(-1)?.message).toBe("the end");
  expect(kept.lines.at(-2)?.fields).toMatchObject({ attempt: 100_000 });
  expect(toBinary(LogSchema, kept).length).toBeLessThan(64 * 1024);
});

it("redacts a secret in every line, also one learned at the end", async () => {
  const { broker, store } = await openTestBroker(testWorld());
  const log = broker.logs.begin({ operation: "auth.refresh", environment: "dev", secrets: ["correct horse battery"] });
  log.warn("the provider says", { detail: "correct horse battery is wrong, and so is purple monkey dishwasher" });
  log.hide("purple monkey dishwasher");
  await log.end({ failed: true }).write();
  const [line] = (await broker.logs.get({ environment: "dev", id: log.id })).lines;
  expect(line?.fields?.["detail"]).toBe("[redacted] is wrong, and so is [redacted]");
  for (const { value } of await store.list({ from: "log", to: "log~", limit: 100 })) {
    expect(Buffer.from(value).includes("horse")).toBe(false);
  }
});

it("deletes logs that are too old, completely, and keeps the rest", async () => {
  const world = testWorld();
  const open = await openTestBroker(world, { retention: { maxAgeMs: day, maxCount: 1_000 } });
  for (let i = 0; i < 450; i += 1) await write(open, { connectionId: "ada", failed: true });
  world.advance(day / 2);
  const kept = [await write(open, { connectionId: "ada", failed: true }), await write(open)];
  await keepHouse(open, world);
  expect((await list(open)).length).toBe(452);
  world.advance(day / 2);
  await keepHouse(open, world);
  expect(await list(open)).toEqual(kept.toReversed());
  expect(await keysLeft(open)).toBe(5 + 3);
  expect(await list(open, { failed: true })).toEqual([kept[0]]);
  const { text } = await world.metrics.exposition();
  expect(text).toContain("latchkey_logs_deleted_total 450");
});

it("deletes the oldest above the limit, also when the limit is lowered", async () => {
  const world = testWorld();
  const open = await openTestBroker(world, { retention: { maxAgeMs: day, maxCount: 300 } });
  const ids: string[] = [];
  const more = async (count: number) => {
    for (let i = 0; i < count; i += 1) ids.push(await write(open));
  };
  await more(500);
  await keepHouse(open, world, 3);
  expect(await list(open)).toEqual(ids.slice(-300).reverse());
  await more(50);
  await keepHouse(open, world, 3);
  expect(await list(open)).toEqual(ids.slice(-300).reverse());
  open.broker.retain({ ...defaultRetention, maxAgeMs: day, maxCount: 100 });
  await keepHouse(open, world);
  expect(await list(open)).toEqual(ids.slice(-100).reverse());
});

it("deletes old logs that lie behind one of a clock that was ahead", async () => {
  const world = testWorld();
  const open = await openTestBroker(world, { retention: { maxAgeMs: day, maxCount: 300 } });
  world.advance(365 * day);
  const ahead = await write(open);
  world.advance(-365 * day);
  for (let i = 0; i < 5; i += 1) await write(open);
  expect(await list(open)).toHaveLength(6);
  world.advance(2 * day);
  await keepHouse(open, world);
  expect(await list(open)).toEqual([ahead]);
});

it("recreates nothing of a deleted environment, and drops its logs", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  const settings = { name: "gone", forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] };
  await open.broker.environments.create(settings, "test");
  const id = await write(open, { environment: "gone" });
  const kept = await write(open);
  await open.broker.environments.delete({ name: "gone", expectedRevision: 0n }, "test");
  expect(await list(open, { environment: "gone" })).toEqual([]);
  world.advance(1);
  await open.broker.environments.create(settings, "test");
  expect(await list(open, { environment: "gone" })).toEqual([]);
  await expect(open.broker.logs.get({ environment: "gone", id })).rejects.toMatchObject({ code: "not_found" });
  await open.broker.environments.delete({ name: "gone", expectedRevision: 0n }, "test");
  await keepHouse(open, world);
  expect(await keysLeft(open)).toBe(3);
  expect(await list(open)).toEqual([kept]);
});
