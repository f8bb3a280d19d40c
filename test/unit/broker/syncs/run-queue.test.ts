import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createCollections } from "../../../../src/broker/collections.ts";
import { createRunPace } from "../../../../src/broker/syncs/runs/run-pace.ts";
import { createRunQueue, type QueuedRun } from "../../../../src/broker/syncs/runs/run-queue.ts";
import { newRun } from "../../../../src/core/scripts/sync-state.ts";
import { Script_Kind } from "../../../../src/gen/latchkey/v1/sync_pb.ts";
import type { Change } from "../../../../src/store/contract.ts";
import { localSealKey } from "../../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../../src/store/sealed/sealed.ts";
import { openTestStore, testWorld } from "../world.ts";

async function openQueue(isOwn = (_: number) => true) {
  const world = testWorld();
  const keys = [localSealKey({ id: "test", secret: Buffer.alloc(32, 7) })];
  const store = await openSealedStore({ backend: await openTestStore(world), keys, world });
  const collections = createCollections(store, { fieldsOf: () => [] });
  const run = (integration: string, id: string, dueMs: number, lane = `${integration} ${id}`): Change[] => {
    const ref = { $typeName: "latchkey.v1.ConnectionRef", environment: "dev", integration, id } as const;
    const place = { ref, name: "things", variant: "base", lane, environmentId: "" };
    const after = newRun({ ...place, id, kind: Script_Kind.SYNC, cause: "trigger", dueMs });
    return collections.runs.change({ before: undefined, after });
  };
  const queue = createRunQueue({ store, collections, isOwn });
  return { store, queue, run };
}

const all = () => true;
const ofOther = ({ integration }: QueuedRun) => integration === "dev\0other";

it("finds runs that may start behind thousands that may not", async () => {
  const { store, queue, run } = await openQueue();
  for (let i = 0; i < 5_000; i += 500) {
    await store.commit(Array.from({ length: 500 }, (_, n) => run("busy", `b${i + n}`, 1_000 + i + n)).flat());
  }
  await store.commit(run("other", "o1", 9_000));
  await queue.refresh(10_000);
  expect(queue.overdueMs(10_000)).toBe(9_000);
  let found = queue.take(ofOther);
  for (let i = 0; i < 6 && found === undefined; i += 1) {
    await sleep(260);
    await queue.refresh(10_000);
    found = queue.take(ofOther);
  }
  expect(found).toMatchObject({ id: "o1", lane: "other o1" });
});

it("sees later runs, returns the longest due first, and each once", async () => {
  const { store, queue, run } = await openQueue();
  await store.commit(run("busy", "second", 2_000));
  await queue.refresh(10_000);
  const changes = [...run("busy", "first", 1_000), ...run("busy", "later", 20_000)];
  await store.commit(changes);
  for (const { key } of changes.filter((one) => one.key.startsWith("run.queued"))) queue.add(key, undefined);
  await queue.refresh(10_000);
  expect([queue.take(all), queue.take(all), queue.take(all)].map((one) => one?.id)).toEqual([
    "first",
    "second",
    undefined,
  ]);
  queue.forget();
  await queue.refresh(30_000);
  expect(queue.take(({ id }) => id === "later")?.id).toBe("later");
});

const ofLane = ({ lane }: QueuedRun) => lane === "one";

it("returns runs with one order key in order, whatever it saw and however many wait before them", async () => {
  const { store, queue, run } = await openQueue();
  const many = Array.from({ length: 2_500 }, (_, i) => run("busy", `b${i}`, 1_000 + i));
  await store.commit([...many.flat(), ...run("other", "older", 3_300, "one")]);
  await queue.refresh(10_000);
  const newer = run("other", "newer", 9_000, "one");
  await store.commit(newer);
  for (const { key } of newer.filter((one) => one.key.startsWith("run.queued"))) queue.add(key, undefined);
  const given = new Set<string>();
  for (let i = 0; i < 20 && given.size < 2; i += 1) {
    await queue.refresh(10_000);
    // Nothing starts the runs, so a later read finds them again.
    for (let one = queue.take(ofLane); one !== undefined; one = queue.take(ofLane)) given.add(one.id);
    await sleep(260);
  }
  expect([...given]).toEqual(["older", "newer"]);
});

it("returns no run before an older one with its order key that it has dropped", async () => {
  const { store, queue, run } = await openQueue();
  const many = Array.from({ length: 2_500 }, (_, i) => run("busy", `b${i}`, 1_000 + i));
  await store.commit([...many.flat(), ...run("other", "older", 1_500, "one"), ...run("other", "newer", 3_300, "one")]);
  await queue.refresh(10_000);
  // The queue has passed the older run, which could not start then.
  await sleep(260);
  await queue.refresh(10_000);
  const given = new Set([queue.take(ofLane)?.id]);
  for (let i = 0; i < 20 && given.size < 3; i += 1) {
    await sleep(i === 0 ? 1_010 : 260);
    await queue.refresh(10_000);
    for (let one = queue.take(ofLane); one !== undefined; one = queue.take(ofLane)) given.add(one.id);
  }
  expect([...given]).toEqual([undefined, "older", "newer"]);
});

it("passes over runs of other processes, and returns them once their partition is its own", async () => {
  let isTaken = false;
  const { store, queue, run } = await openQueue(() => isTaken);
  await store.commit(run("busy", "known", 1_000));
  const told = run("busy", "told", 2_000);
  await store.commit(told);
  for (const { key } of told.filter((one) => one.key.startsWith("run.queued"))) queue.add(key, 7);
  await queue.refresh(10_000);
  expect(queue.take(all)).toBeUndefined();
  expect(queue.overdueMs(10_000)).toBe(0);
  isTaken = true;
  queue.forget();
  await queue.refresh(10_000);
  expect([queue.take(all)?.id, queue.take(all)?.id]).toEqual(["known", "told"]);
});

it("spreads the starts of runs if there is other work", async () => {
  const pace = createRunPace();
  await pace.wait();
  const began = performance.now();
  while (performance.now() - began < 10);
  await pace.wait();
  // Ten milliseconds of work ask for twenty of rest.
  expect(performance.now() - began).toBeGreaterThanOrEqual(25);
  const spin = setInterval(() => {
    for (const until = performance.now() + 20; performance.now() < until; );
  }, 1);
  const busySince = performance.now();
  // However busy it stays, another begins.
  await pace.wait();
  clearInterval(spin);
  expect(performance.now() - busySince).toBeGreaterThanOrEqual(40);
});
