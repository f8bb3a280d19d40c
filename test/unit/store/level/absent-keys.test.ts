import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { type Change, StaleWrite } from "../../../../src/store/contract.ts";
import { createAbsentKeys, misses } from "../../../../src/store/level/absent-keys.ts";
import { createCommitCheck } from "../../../../src/store/level/commit-check.ts";
import { type Database, openDatabase } from "../../../../src/store/level/database.ts";
import { createKeyFilter } from "../../../../src/store/level/key-filter.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });
const value = new Uint8Array([1]);
const keysOf = (name: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${name}\0${i}`);
const writesOf = (keys: readonly string[]): Change[] => keys.map((key) => ({ key, value }));

async function databaseWith(keys: readonly string[]): Promise<Database> {
  const db = await openDatabase(join(await temporaryFolder(), "db"), { create: true });
  onTestFinished(() => db.close());
  await db.batch(keys.map((key) => ({ type: "put", key, value })));
  return db;
}

it("knows absent keys of a space once they were missed often, and never calls an existing key absent", async () => {
  const stored = keysOf("seen", 1_700);
  const absent = createAbsentKeys({ db: await databaseWith([...stored, ...keysOf("seen.old", 10)]) });
  for (const key of keysOf("other", misses - 1)) absent.noteMiss(key);
  for (const key of keysOf("seen\0new", misses)) absent.noteMiss(key);
  // Written while the filter is made.
  const meanwhile = keysOf("seen\0meanwhile", 300);
  absent.willWrite(writesOf(meanwhile));
  await expect.poll(() => keysOf("seen\0none", 100).filter(absent.isAbsent).length).toBeGreaterThan(80);
  const later = keysOf("seen\0later", 300);
  absent.willWrite(writesOf(later));
  expect([...stored, ...meanwhile, ...later].filter(absent.isAbsent)).toEqual([]);
  expect(keysOf("other", 10).filter(absent.isAbsent)).toEqual([]);
  absent.clear();
  expect(keysOf("seen\0none", 100).filter(absent.isAbsent)).toEqual([]);
});

it("makes a filter while keys are written faster than they are read", async () => {
  const stored = keysOf("seen\0a", 2_000);
  const db = await databaseWith(stored);
  const absent = createAbsentKeys({ db });
  for (const key of keysOf("seen\0new", misses)) absent.noteMiss(key);
  const written: string[] = [];
  for (let round = 0; round < 40 && !absent.isAbsent("seen\0none"); round += 1) {
    const keys = keysOf(`seen\0b${String(round).padStart(3, "0")}`, 600);
    absent.willWrite(writesOf(keys));
    await db.batch(keys.map((key) => ({ type: "put", key, value })));
    written.push(...keys);
  }
  expect(absent.isAbsent("seen\0none")).toBe(true);
  expect([...stored, ...written].filter(absent.isAbsent)).toEqual([]);
});

it("has filters for what an import misses and for webhooks after it", async () => {
  const absent = createAbsentKeys({ db: await databaseWith([]) });
  const spaces = ["audit", "connection", "description", "notification-seen", "forward"];
  for (const space of spaces) for (const key of keysOf(space, misses)) absent.noteMiss(key);
  await expect.poll(() => spaces.filter((space) => absent.isAbsent(`${space}\0new`))).toEqual(spaces);
});

it("finds every key in a filter that has grown, and few others", () => {
  let allowed = 500_000;
  const filter = createKeyFilter((bytes) => {
    allowed -= bytes;
    return allowed >= 0;
  });
  const added = keysOf("key", 120_000);
  expect(added.every((key) => filter.add(key))).toBe(true);
  while (filter.add("another"));
  expect(filter.bytes).toBe(393_216);
  expect(added.every((key) => filter.has(key))).toBe(true);
  expect(keysOf("none", 10_000).filter((key) => filter.has(key)).length).toBeLessThan(500);
});

it("refuses a key that exists, before and after its space has a filter, and after a restart", async () => {
  const folder = join(await temporaryFolder(), "store");
  const open = () => openLevelStore({ folder, log, metrics: createMetrics() });
  const commitEach = async (store: Awaited<ReturnType<typeof open>>, keys: readonly string[]) => {
    const ended = await Promise.allSettled(keys.map((key) => store.commit([{ key, value, expect: 0 }])));
    return ended.filter((one) => one.status === "rejected" && one.reason instanceof StaleWrite).length;
  };
  const first = keysOf("mark\0a", 2 * misses);
  const second = keysOf("mark\0b", 2 * misses);
  for (const known of [[], [...first, ...second]]) {
    const store = await open();
    expect(await commitEach(store, first)).toBe(known.length === 0 ? 0 : first.length);
    expect(await commitEach(store, keysOf(`mark\0${known.length}`, 2 * misses))).toBe(0);
    expect(await commitEach(store, second)).toBe(known.length === 0 ? 0 : second.length);
    expect(await commitEach(store, [...second, ...first])).toBe(first.length + second.length);
    const [gone, ...found] = await store.getMany(["mark\0never written", ...second, ...first]);
    expect([gone, found.every((entry) => entry !== undefined)]).toEqual([undefined, true]);
    await store.close();
  }
});

it("forgets its filter when something was written past the check of commits", async () => {
  const db = await databaseWith([]);
  const state = { db, revision: 7 };
  const { check } = createCommitCheck({ database: state, absent: createAbsentKeys(state) });
  const expectNew = async (key: string) => (await check([{ changes: [{ key, value, expect: 0 }], conditions: [] }]))[0];
  for (const key of keysOf("mark\0a", misses)) {
    await expectNew(key);
    state.revision += 1;
  }
  const reads = vi.spyOn(db, "getSync");
  const readsOfNext = async (at: number) => {
    reads.mockClear();
    await expectNew(`mark\0next ${at}`);
    state.revision += 1;
    return reads.mock.calls.length;
  };
  let at = 0;
  await expect.poll(() => readsOfNext(at++)).toBe(0);
  await db.put("mark\0filled", value);
  state.revision += 10;
  expect(await expectNew("mark\0filled")).toBeInstanceOf(StaleWrite);
});
