import { expect, it } from "vitest";
import { createSyncRecords } from "../../../../src/broker/records/sync-records.ts";
import { defaultRetention } from "../../../../src/config/retention.ts";
import type { ConnectionRef } from "../../../../src/gen/latchkey/v1/connection_pb.ts";
import { StaleWrite, type Store } from "../../../../src/store/contract.ts";
import { under } from "../../../../src/store/keys.ts";
import { createLeases, leaseKeys } from "../../../../src/store/leases.ts";
import { openTestBroker } from "../open-broker.ts";
import { contacts, everything, shown } from "../records.ts";
import { testWorld } from "../world.ts";

const dayMs = 86_400_000;
const tokens = { case: "oauth2", value: { accessToken: "token" } } as const;

async function open() {
  const world = testWorld();
  const opened = await openTestBroker(world);
  await opened.import("ada", tokens);
  return { ...opened, world, records: opened.broker.records };
}

it("reports the outcome of each record, and moves changed ones to the end", async () => {
  const { records } = await open();
  const of = contacts();
  const first = await records.save(of, [
    { id: "a", n: 1 },
    { id: 2, n: 1 },
    { id: "c", n: 1 },
  ]);
  expect(first).toEqual({ added: 3, updated: 0, deleted: 0, unchanged: 0 });
  const second = await records.save(of, [
    { n: 1, id: "a", _nango_metadata: { cursor: "x" } },
    { id: 2, n: 2 },
  ]);
  expect(second).toEqual({ added: 0, updated: 1, deleted: 0, unchanged: 1 });
  expect(await shown(records, of)).toEqual([
    ["a", "ADDED", { id: "a", n: 1 }],
    ["c", "ADDED", { id: "c", n: 1 }],
    ["2", "UPDATED", { id: 2, n: 2 }],
  ]);
  expect(await records.delete(of, [{ id: "a" }, "none"])).toMatchObject({ deleted: 1 });
  expect(await records.delete(of, ["a"])).toMatchObject({ deleted: 0 });
  expect((await shown(records, of)).map(([id, action]) => `${id} ${action}`)).toEqual([
    "c ADDED",
    "2 UPDATED",
    "a DELETED",
  ]);
  expect(await records.save(of, [{ id: "a", n: 1 }])).toMatchObject({ added: 1 });
  expect((await records.counts(of.connection)).map(({ model, variant, count }) => [model, variant, count])).toEqual([
    ["Contact", "base", 3],
  ]);
  expect((await records.list(of, { ...everything, limit: 2 })).next).not.toBe("");
  expect((await records.list(of, { ...everything, limit: 3 })).next).toBe("");
});

const many = (count: number, more: object = {}) => Array.from({ length: count }, (_, i) => ({ id: `r${i}`, ...more }));
const idsOf = (page: Awaited<ReturnType<typeof shown>>) => page.map(([id]) => id);

it("merges an update into existing records, and skips missing ones", async () => {
  const { records } = await open();
  const of = contacts();
  await records.save(of, [{ id: "a", at: { x: 1, y: 1 } }, { id: "b" }]);
  await records.delete(of, ["b"]);
  const counts = await records.update(of, [
    { id: "a", at: { x: 2 } },
    { id: "b", n: 1 },
    { id: "none", n: 1 },
  ]);
  expect(counts).toEqual({ added: 0, updated: 1, deleted: 0, unchanged: 0 });
  expect(await records.update(of, [{ id: "a", at: { x: 2 } }])).toMatchObject({ updated: 0, unchanged: 1 });
  expect(await records.getByIds(of, ["a", "b", "none"])).toEqual(new Map([["a", { id: "a", at: { x: 2, y: 1 } }]]));
});

it("saves many in several commits, and nothing of an invalid batch", async () => {
  const { records, store } = await open();
  const of = contacts();
  const before = store.status().revision;
  await records.save(of, many(2_500));
  expect((await records.counts(of.connection))[0]?.count).toBe(2_500);
  // One is for the key that hashes ids.
  expect(store.status().revision - before).toBe(4);
  const large = store.status().revision;
  await records.save(of, many(5, { text: "x".repeat(1_000_000) }));
  expect(store.status().revision - large).toBe(3);
  await expect(records.save(of, [{ id: "new" }, { name: "no id" }])).rejects.toMatchObject({ code: "invalid_body" });
  expect((await records.getByIds(of, ["new"])).size).toBe(0);
});

it("lists by action, id and time, and follows cursors through all of them", async () => {
  const { records, world } = await open();
  const of = contacts();
  await records.save(of, many(10));
  world.advance(1_000);
  const mark = world.now();
  world.advance(1_000);
  await records.save(of, many(4, { n: 1 }));
  await records.delete(of, ["r9"]);
  expect(idsOf(await shown(records, of, { actions: ["UPDATED"] }))).toEqual(["r0", "r1", "r2", "r3"]);
  expect(idsOf(await shown(records, of, { actions: ["DELETED", "UPDATED"], limit: 2 }))).toEqual(["r0", "r1"]);
  expect(idsOf(await shown(records, of, { modifiedAfterMs: mark }))).toEqual(["r0", "r1", "r2", "r3", "r9"]);
  expect(await shown(records, of, { modifiedAfterMs: world.now() })).toEqual([]);
  expect(idsOf(await shown(records, of, { ids: ["r9", "r5", "none", "r0"] }))).toEqual(["r5", "r0", "r9"]);
  const seen: string[] = [];
  for (let cursor = ""; ; ) {
    const page = await records.list(of, { ...everything, ids: ["r9", "r5", "r0"], limit: 1, cursor });
    seen.push(...page.records.map(({ record }) => record.id));
    cursor = page.next;
    if (cursor === "") break;
  }
  expect(seen).toEqual(["r5", "r0", "r9"]);
  const small = await records.list(of, { ...everything, maxBytes: 600 });
  expect([small.records.length, small.next !== ""]).toEqual([2, true]);
});

it("refuses a cursor of other records, and reads a recreated connection's from the start", async () => {
  const { records, broker, import: importOne } = await open();
  const of = contacts();
  await records.save(of, many(3));
  const cursor = (await records.list(of, everything)).records.at(-1)?.cursor ?? "";
  const other = { ...of, model: "Company" };
  await expect(records.list(other, { ...everything, cursor })).rejects.toMatchObject({ code: "invalid_query_params" });
  const { value } = await broker.connections.get(of.connection);
  await broker.connections.delete({ ref: of.connection, expectedRevision: 0n }, "test");
  await importOne("ada", tokens);
  expect(await shown(records, of)).toEqual([]);
  const former = { ...of, connectionNumber: value.number };
  await expect(records.save(former, many(1))).rejects.toMatchObject({ code: "unknown_connection" });
  await records.save(of, [{ id: "new" }]);
  expect(idsOf(await shown(records, of, { cursor }))).toEqual(["new"]);
});

it("writes nothing for a run that has lost its lease", async () => {
  const { records, store } = await open();
  const of = contacts();
  const lease = await createLeases(store).take("syncs", 60_000);
  if (lease === undefined) throw new Error("nobody else has it");
  const writing = { conditions: [lease.fence] };
  await records.save(of, many(3), writing);
  const detection = await records.detectDeletes(of, writing);
  await store.commit([{ key: leaseKeys("syncs").holder, value: Buffer.from("somebody else") }]);
  await expect(records.save(of, many(1, { n: 1 }), writing)).rejects.toThrow(StaleWrite);
  await expect(records.update(of, many(1, { n: 1 }), writing)).rejects.toThrow(StaleWrite);
  await expect(records.delete(of, ["r0"], writing)).rejects.toThrow(StaleWrite);
  await expect(records.drop(of, writing)).rejects.toThrow(StaleWrite);
  await expect(detection.finish()).rejects.toThrow(StaleWrite);
  expect((await shown(records, of)).map(([id, action]) => `${id} ${action}`)).toEqual([
    "r0 ADDED",
    "r1 ADDED",
    "r2 ADDED",
  ]);
});

it("X06 deletes what a complete full run did not save, and nothing after an incomplete one", async () => {
  const { records } = await open();
  const of = contacts();
  await records.save(of, many(2_000));
  const dead = await records.detectDeletes(of);
  await records.save(of, many(1_800));
  dead.seen(many(1_800));
  expect((await records.counts(of.connection))[0]?.count).toBe(2_000);

  const whole = await records.detectDeletes(of);
  await records.save(of, many(900));
  whole.seen(many(900));
  // In the meantime a notification arrives for a new record, a changed one, and one that is already gone.
  await records.save(of, [{ id: "heard" }, { id: "r1500", n: 2 }]);
  await records.delete(of, ["r1999"]);
  expect(await whole.finish()).toBe(1_098);
  const { records: left } = await records.list(of, { ...everything, limit: 10_000, actions: ["ADDED", "UPDATED"] });
  expect(new Set(left.map(({ record }) => record.id))).toEqual(
    new Set([...many(900).map(({ id }) => id), "heard", "r1500"]),
  );
  expect(await (await records.detectDeletes({ ...of, model: "Empty" })).finish()).toBe(0);
});

it("empties records up to a cursor, a bounded part a call, and knows them still", async () => {
  const { records } = await open();
  const of = contacts();
  await records.save(of, many(2_500, { text: "x" }));
  const until = (await records.list(of, { ...everything, limit: 2_400 })).records.at(-1)?.cursor ?? "";
  expect(await records.prune(of, { until, limit: 2_300 })).toEqual({ count: 2_300, hasMore: true });
  expect(await records.prune(of, { until, limit: 2_300 })).toEqual({ count: 100, hasMore: false });
  expect(await records.prune(of, { until, limit: 2_300 })).toEqual({ count: 0, hasMore: false });
  const page = await records.list(of, { ...everything, limit: 2_500 });
  expect(page.records.map(({ record }) => record.prunedMs > 0).lastIndexOf(true)).toBe(2_399);
  expect(page.records[0]?.record.data.length).toBe(0);
  expect(
    await records.save(of, [
      { id: "r0", text: "x" },
      { id: "r1", text: "y" },
    ]),
  ).toMatchObject({
    updated: 1,
    unchanged: 1,
  });
  expect((await records.getByIds(of, ["r0", "r1"])).get("r1")).toEqual({ id: "r1", text: "y" });
  // A record that is deleted after pruning is not pruned again.
  await records.delete(of, ["r2"]);
  const end = (await records.list(of, { ...everything, limit: 3_000 })).records.at(-1);
  expect([end?.record.id, end?.record.prunedMs !== 0]).toEqual(["r2", true]);
  expect(await records.prune(of, { until: end?.cursor ?? "", limit: 5_000 })).toEqual({ count: 101, hasMore: false });
});

it("drops all records at once, removes them later, and continues its cursors", async () => {
  const { records, broker, store } = await open();
  const of = contacts();
  await records.save(of, many(1_200));
  const cursor = (await records.list(of, { ...everything, limit: 2_000 })).records.at(-1)?.cursor ?? "";
  await records.drop(of);
  expect(await shown(records, of)).toEqual([]);
  await records.save(of, many(2));
  expect(await shown(records, of, { cursor })).toEqual([
    ["r0", "ADDED", { id: "r0" }],
    ["r1", "ADDED", { id: "r1" }],
  ]);
  await broker.keepHouse();
  expect(await keysOf(store, "record", "record-place", "record-dropped")).toBe(4);
});

it("removes the records of a deleted connection, a bounded commit at a time", async () => {
  const { records, broker, store } = await open();
  const of = contacts();
  await records.save(of, many(1_200));
  await records.save({ ...of, model: "Company" }, many(1_200));
  await records.delete({ ...of, model: "Company" }, many(600));
  await broker.connections.delete({ ref: of.connection, expectedRevision: 0n }, "test");
  const before = store.status().revision;
  await broker.keepHouse();
  const spaces = ["record", "record-place", "record-model", "record-model.touched"];
  expect(await keysOf(store, ...spaces, "record-dropped", "record-dropped-connection")).toBe(0);
  expect(store.status().revision - before).toBeGreaterThan(8);
});

it("removes records that were deleted, or untouched by runs, for long enough", async () => {
  const { records, broker, store, world } = await open();
  broker.retain({ ...defaultRetention, recordsMs: 10 * dayMs });
  const [kept, left] = [contacts(), { ...contacts(), model: "Left" }];
  await records.save(kept, many(5));
  await records.save(left, many(5));
  await records.delete(kept, ["r0", "r1"]);
  await records.save(kept, [{ id: "r1" }]);
  await records.delete(kept, ["r2"]);
  world.advance(9 * dayMs);
  await records.delete(kept, ["r3"]);
  await broker.keepHouse();
  expect(idsOf(await shown(records, kept))).toEqual(["r4", "r0", "r1", "r2", "r3"]);
  expect(idsOf(await shown(records, left))).toHaveLength(5);
  world.advance(dayMs + 2 * 3_600_000);
  // A run that brings nothing new.
  await records.touch(kept);
  const cursor = (await records.list(left, everything)).records.at(-1)?.cursor ?? "";
  await broker.keepHouse();
  expect(idsOf(await shown(records, kept))).toEqual(["r4", "r1", "r3"]);
  expect(await shown(records, left)).toEqual([]);
  await records.save(left, [{ id: "again" }]);
  expect(idsOf(await shown(records, left, { cursor }))).toEqual(["again"]);
  world.advance(30 * dayMs);
  await records.touch(kept);
  await broker.keepHouse();
  expect(idsOf(await shown(records, kept))).toEqual(["r4", "r1"]);
  expect(await keysOf(store, "record-deleted")).toBe(0);
});

it("keeps times in the order of changes when the clock is set back", async () => {
  const { records, world } = await open();
  const of = contacts();
  await records.save(of, many(3));
  const mark = world.now();
  world.advance(60_000);
  await records.save(of, [{ id: "later" }]);
  world.advance(-3_600_000);
  await records.save(of, [{ id: "last" }]);
  expect(idsOf(await shown(records, of, { modifiedAfterMs: mark }))).toEqual(["later", "last"]);
});

it("saves nothing for a connection that is deleted at the same moment", async () => {
  const { records, broker, store, collections, world } = await open();
  const of = contacts();
  await records.save(of, many(2));
  let isDeleted = false;
  const get = async (ref: ConnectionRef) => {
    const found = await broker.connections.get(ref);
    if (!isDeleted) await broker.connections.delete({ ref, expectedRevision: 0n }, "test");
    isDeleted = true;
    return found;
  };
  const late = createSyncRecords({ store, collections, connections: { get }, world });
  await expect(late.save(of, [{ id: "late" }])).rejects.toMatchObject({ code: "unknown_connection" });
  await broker.keepHouse();
  expect(await keysOf(store, "record", "record-place", "record-model")).toBe(0);
});

it("counts the time of a deleted record from when it was deleted last", async () => {
  const { records, broker, world } = await open();
  broker.retain({ ...defaultRetention, recordsMs: 10 * dayMs });
  const of = contacts();
  await records.save(of, many(1));
  await records.delete(of, ["r0"]);
  world.advance(5 * dayMs);
  await records.save(of, many(1));
  await records.delete(of, ["r0"]);
  world.advance(6 * dayMs);
  await broker.keepHouse();
  expect(idsOf(await shown(records, of))).toEqual(["r0"]);
  world.advance(5 * dayMs);
  await broker.keepHouse();
  expect(await shown(records, of)).toEqual([]);
});

it("keeps invalid names of records out of the store's keys", async () => {
  const { records } = await open();
  for (const wrong of [{ model: "" }, { model: "a\0b" }, { model: "x".repeat(256) }, { variant: "\n" }]) {
    await expect(records.save({ ...contacts(), ...wrong }, [])).rejects.toMatchObject({ code: "invalid_body" });
  }
});

async function keysOf(store: Store, ...spaces: readonly string[]): Promise<number> {
  const found = await Promise.all(spaces.map((space) => store.list({ ...under(space), limit: 100_000 })));
  return found.flat().length;
}
