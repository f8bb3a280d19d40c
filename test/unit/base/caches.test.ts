import { describe, expect, it } from "vitest";
import { createKnownBytes } from "../../../src/base/caches/known-bytes.ts";
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

describe("what is known by its bytes", () => {
  const lookup = <T>(cache: ReturnType<typeof createKnownBytes<T>>, text: string, before = ""): T | undefined => {
    const bytes = Buffer.from(`${before}${text}and more`, "latin1");
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    return cache.of(view, before.length, before.length + text.length);
  };

  it("is found wherever the bytes are, and only by the same bytes", () => {
    const cache = createKnownBytes<number>({ bytes: 64 * 1_024, maxLength: 64 });
    const texts = Array.from({ length: 57 }, (_, i) => "\xe9".repeat(i + 8));
    expect(lookup(cache, "before any")).toBeUndefined();
    for (const [i, text] of texts.entries()) cache.keep(text, i);
    for (const [i, text] of texts.entries()) {
      expect(lookup(cache, text, "x".repeat(i % 5))).toBe(i);
      for (let at = 0; at < text.length; at += 1)
        expect(lookup(cache, `${text.slice(0, at)}e${text.slice(at + 1)}`)).toBeUndefined();
    }
    cache.keep("x".repeat(7), 1);
    cache.keep("x".repeat(65), 1);
    expect([lookup(cache, "x".repeat(7)), lookup(cache, "x".repeat(65))]).toEqual([undefined, undefined]);
  });

  it("holds a thousand that differ in a number, and forgets all when its memory is full", () => {
    const cache = createKnownBytes<number>({ bytes: 32 * 1_024, maxLength: 64 });
    const textOf = (i: number) => `Connection-Id: user-${String(i).padStart(8, "0")}`;
    for (let i = 0; i < 1_000; i += 1) cache.keep(textOf(i), i);
    const found = Array.from({ length: 1_000 }, (_, i) => lookup(cache, textOf(i))).filter((one, i) => one === i);
    expect(found.length).toBeGreaterThan(990);
    for (let i = 1_000; i < 1_200; i += 1) cache.keep(textOf(i), i);
    expect([lookup(cache, textOf(5)), lookup(cache, textOf(1_199))]).toEqual([undefined, 1_199]);
  });

  it("takes no further memory for what is kept again", () => {
    const cache = createKnownBytes<object>({ bytes: 1_024, maxLength: 64 });
    const [first, again] = [{}, {}];
    cache.keep("what was known before", first);
    for (let i = 0; i < 1_000; i += 1) cache.keep("what is kept again", again);
    expect(lookup(cache, "what was known before")).toBe(first);
  });

  it("takes the place of others for more texts than a set has places", () => {
    const cache = createKnownBytes<number>({ bytes: 1_024 * 1_024, maxLength: 64 });
    const textOf = (i: number) => `number ${i} of very many`;
    for (let i = 0; i < 20_000; i += 1) cache.keep(textOf(i), i);
    const found = Array.from({ length: 20_000 }, (_, i) => [i, lookup(cache, textOf(i))] as const);
    expect(found.filter(([i, one]) => one !== undefined && one !== i)).toEqual([]);
    expect(found.filter(([, one]) => one !== undefined).length).toBe(4_096);
  });
});
