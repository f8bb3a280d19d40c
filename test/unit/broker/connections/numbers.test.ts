import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { createNumbers } from "../../../../src/broker/connections/numbers.ts";
import { StoreUnavailable } from "../../../../src/store/contract.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";
import { openTestStore, testWorld } from "../world.ts";

const take = (numbers: ReturnType<typeof createNumbers>, count: number) =>
  Promise.all(Array.from({ length: count }, () => numbers.next()));

it("gives each number once, beginning at 1, however many ask at once", async () => {
  const numbers = createNumbers(await openTestStore(testWorld()));
  const given = await take(numbers, 2_500);
  expect(given.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 2_500 }, (_, i) => i + 1));
});

it("gives no number again after a restart", async () => {
  const folder = join(await temporaryFolder(), "store");
  const given: number[] = [];
  for (let start = 0; start < 4; start += 1) {
    const store = await openTestStore(testWorld(), folder);
    given.push(...(await take(createNumbers(store), 3 + start * 700)));
    await store.close();
  }
  expect(new Set(given).size).toBe(given.length);
});

it("gives two takers of one store different numbers", async () => {
  const store = await openTestStore(testWorld());
  const given = (await Promise.all([take(createNumbers(store), 1_500), take(createNumbers(store), 1_500)])).flat();
  expect(new Set(given).size).toBe(3_000);
});

it("costs one commit a thousand", async () => {
  const store = await openTestStore(testWorld());
  const numbers = createNumbers(store);
  const before = store.status().revision;
  await take(numbers, 1_000);
  expect(store.status().revision).toBe(before + 1);
  await numbers.next();
  expect(store.status().revision).toBe(before + 2);
});

it("costs one commit for ten thousand while a thousand last for less than a second", async () => {
  const store = await openTestStore(testWorld());
  const numbers = createNumbers(store);
  const clock = vi.spyOn(performance, "now").mockReturnValue(0);
  await take(numbers, 1_000);
  const before = store.status().revision;
  await take(numbers, 10_000);
  expect(store.status().revision).toBe(before + 1);
  clock.mockReturnValue(2_000);
  await take(numbers, 1_000);
  expect(store.status().revision).toBe(before + 2);
  await numbers.next();
  expect(store.status().revision).toBe(before + 3);
  clock.mockRestore();
});

it("assigns none while the store refuses writes, and continues afterwards", async () => {
  const store = await openTestStore(testWorld());
  const numbers = createNumbers(store);
  const { commit } = store;
  store.commit = () => Promise.reject(new StoreUnavailable("full"));
  const refused = await Promise.allSettled(Array.from({ length: 10 }, () => numbers.next()));
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  store.commit = commit;
  expect(await numbers.next()).toBe(1);
});
