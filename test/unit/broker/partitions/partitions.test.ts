import { expect, it, onTestFinished } from "vitest";
import type { HeldPartition } from "../../../../src/broker/partitions/held-partition.ts";
import { openPartitions, type Partitions } from "../../../../src/broker/partitions/partitions.ts";
import { StaleWrite, type Store } from "../../../../src/store/contract.ts";
import { under } from "../../../../src/store/keys.ts";
import { openTestStore, type TestWorld, testWorld } from "../world.ts";

const soon = { interval: 20 };

interface OpenOptions {
  readonly store: Store;
  readonly world: TestWorld;
  readonly isShared?: boolean;
  readonly termMs?: number;
}

async function open({ isShared = true, ...options }: OpenOptions): Promise<Partitions> {
  const partitions = await openPartitions({ isShared, ...options });
  onTestFinished(() => partitions.close());
  return partitions;
}

/** Partitions that answer in a store of their own; shared ones behave as over PostgreSQL. */
async function setUp() {
  const world = testWorld();
  return { world, store: await openTestStore(world) };
}

const put = (key: string) => ({ key: `test\0${key}`, value: Buffer.from(key) });
const membersIn = async (store: Store) => (await store.list({ ...under("member"), limit: 10 })).length;

it("holds everything at once where no other process can", async () => {
  const { store, world } = await setUp();
  const partitions = await open({ store, world, isShared: false });
  expect(partitions.all()).toEqual([]);
  const taken: number[] = [];
  partitions.listen({ onTaken: ({ number }) => void taken.push(number), onLost: () => undefined });
  const before = store.status().revision;
  await partitions.start();
  expect(taken).toHaveLength(64);
  expect(store.status().revision).toBe(before + 1);
  expect(partitions.held(63)).toMatchObject({ ranOut: false });
  expect(partitions.held(0)?.remainingMs()).toBe(Number.POSITIVE_INFINITY);
  expect(partitions.held(64)).toBeUndefined();
  await partitions.retire();
  expect(partitions.all()).toEqual([]);

  const again = await open({ store, world, isShared: false });
  await again.start();
  expect(again.all()).toHaveLength(64);
  expect(again.all().some(({ ranOut }) => ranOut)).toBe(false);
  // Nothing had to be written.
  expect(store.status().revision).toBe(before + 1);
});

it("shares evenly with those that come, and takes over from those that leave", async () => {
  const { store, world } = await setUp();
  const a = await open({ store, world });
  await a.start();
  expect(a.all()).toHaveLength(64);
  const b = await open({ store, world });
  await b.start();
  await expect.poll(() => [a.all().length, b.all().length], soon).toEqual([32, 32]);
  expect(a.all().filter(({ number }) => b.held(number) !== undefined)).toEqual([]);
  await b.retire();
  await expect.poll(() => a.all().length, soon).toBe(64);
  // A partition that was given back is free of doubt.
  expect(a.all().some(({ ranOut }) => ranOut)).toBe(false);
  expect(await membersIn(store)).toBe(1);
});

it("lets work under way end before another has the partition", async () => {
  const { store, world } = await setUp();
  const a = await open({ store, world });
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const lost: HeldPartition[] = [];
  a.listen({
    onTaken() {},
    onLost(partition) {
      lost.push(partition);
      return ended;
    },
  });
  await a.start();
  const b = await open({ store, world });
  await b.start();
  await expect.poll(() => lost.length, soon).toBe(32);
  expect(a.all()).toHaveLength(32);
  expect(b.all()).toHaveLength(0);
  const [first] = lost;
  if (first === undefined) throw new Error("a partition is given back");
  // The result of that work is still accepted.
  await store.commit([put("result")], [first.fence]);
  end();
  await expect.poll(() => b.all().length, soon).toBe(32);
  const refused = store.commit([put("late")], [first.fence]);
  await expect(refused).rejects.toThrow(StaleWrite);
  await refused.catch((error) => expect(first.isLostBy(error)).toBe(true));
});

it("keeps a partition with long work, and gives back another", async () => {
  const { store, world } = await setUp();
  const a = await open({ store, world });
  // Those that an even share would take from it.
  const long = new Set(Array.from({ length: 31 }, (_, n) => n + 33));
  a.listen({ onTaken() {}, onLost: () => undefined, hasLongWork: (number) => long.has(number) });
  await a.start();
  const b = await open({ store, world });
  await b.start();
  await expect.poll(() => [a.all().length, b.all().length], soon).toEqual([32, 32]);
  expect([...long].filter((number) => a.held(number) === undefined)).toEqual([]);

  // With nothing else to give, it waits until the work has ended.
  for (const { number } of a.all()) long.add(number);
  const c = await open({ store, world });
  await c.start();
  await expect.poll(() => b.all().length, soon).toBeLessThan(23);
  await expect.poll(() => b.all().length + c.all().length, soon).toBe(32);
  expect(a.all()).toHaveLength(32);
  long.clear();
  await expect.poll(() => [a.all().length, b.all().length, c.all().length].toSorted(), soon).toEqual([21, 21, 22]);
});

it("takes over from a member that is silent, and says that it may not know", async () => {
  const { store, world } = await setUp();
  const a = await open({ store, world, termMs: 1_000 });
  await a.start();
  const held = a.held(5);
  await a.close();
  const b = await open({ store, world, termMs: 1_000 });
  await b.start();
  await expect.poll(() => b.all().length, soon).toBe(64);
  expect(b.held(5)).toMatchObject({ ranOut: true });
  expect(held?.remainingMs()).toBe(0);
  await expect(store.commit([put("late")], held && [held.fence])).rejects.toThrow(StaleWrite);
  await expect.poll(() => membersIn(store), soon).toBe(1);
});

it("drops a partition under which a commit was refused, and comes to hold it again", async () => {
  const { store, world } = await setUp();
  const a = await open({ store, world });
  await a.start();
  const held = a.held(7);
  if (held === undefined) throw new Error("it holds everything");
  a.lost(held);
  expect(a.held(7)).toBeUndefined();
  await expect.poll(() => a.held(7), soon).toBeDefined();
  const next = a.held(7);
  a.lost(held);
  expect(a.held(7)).toBe(next);
});
