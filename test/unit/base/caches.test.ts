import { expect, it } from "vitest";
import { createLateCache } from "../../../src/base/caches/late-cache.ts";

it("answers before its first entry, and then keeps the entries that were used last", () => {
  const dropped: number[] = [];
  const cache = createLateCache<number>({ max: 2, dispose: (value) => dropped.push(value) });
  expect([cache.size, cache.get("a"), cache.peek("a"), cache.has("a"), [...cache.values()]]).toEqual([
    ...[0, undefined, undefined, false, []],
  ]);
  cache.delete("a");
  cache.clear();
  cache.set("a", 1);
  cache.set("b", 2);
  expect(cache.get("a")).toBe(1);
  cache.set("c", 3);
  expect([cache.size, cache.has("b"), cache.peek("a"), [...cache.values()].sort(), dropped]).toEqual([
    ...[2, false, 1, [1, 3], [2]],
  ]);
  cache.delete("a");
  cache.clear();
  expect([cache.size, dropped]).toEqual([0, [2, 1, 3]]);
});

it("gives an entry its own time to live", async () => {
  const cache = createLateCache<number>({ max: 2, ttl: 60_000 });
  cache.set("short", 1, { ttl: 1 });
  cache.set("long", 2);
  await expect.poll(() => cache.get("short")).toBeUndefined();
  expect(cache.get("long")).toBe(2);
});
