import { describe, expect, it } from "vitest";
import { createTokenBuckets, type Rate, takeToken, waitMs } from "../../../../src/core/limits/token-buckets.ts";

const rate: Rate = { requests: 10, perMs: 1_000, burst: 5 };

/** How many of this number of simultaneous requests pass. */
function passing(
  buckets: ReturnType<typeof createTokenBuckets>,
  name: string,
  nowMs: number,
  { of = 100, by = rate } = {},
) {
  let passed = 0;
  for (let i = 0; i < of; i += 1) {
    const bucket = buckets.of(name, nowMs);
    if (waitMs(bucket, by, nowMs) > 0) continue;
    takeToken(bucket, by, nowMs);
    passed += 1;
  }
  return passed;
}

describe("a token bucket", () => {
  it("admits a burst, and then the rate", () => {
    const buckets = createTokenBuckets(10);
    expect(passing(buckets, "a", 0)).toBe(5);
    expect(passing(buckets, "a", 99)).toBe(0);
    expect(passing(buckets, "a", 100)).toBe(1);
    expect(passing(buckets, "a", 399)).toBe(2);
    expect(passing(buckets, "a", 400)).toBe(1);
    expect(passing(buckets, "a", 100_000)).toBe(5);
    expect(passing(buckets, "b", 100_000)).toBe(5);
  });

  it("admits exactly the rate over a long time", () => {
    for (const requests of [3, 7, 1_000, 999_983]) {
      const buckets = createTokenBuckets(10);
      const by = { requests, perMs: 1_000, burst: 1 };
      let passed = 0;
      for (let at = 0; at < 60_000; at += Math.max(1, 1_000 / requests / 3))
        passed += passing(buckets, "a", at, { of: 1, by });
      expect(passed).toBeGreaterThan(Math.min(requests, 1_000) * 60 * 0.99);
      expect(passed).toBeLessThanOrEqual(Math.min(requests, 1_000) * 60 + 1);
    }
  });

  it("returns the exact time of the next admission", () => {
    const buckets = createTokenBuckets(10);
    passing(buckets, "a", 0);
    for (let at = 0; at < 2_000; at += 37) {
      const bucket = buckets.of("a", at);
      const wait = waitMs(bucket, rate, at);
      if (wait === 0) {
        takeToken(bucket, rate, at);
        continue;
      }
      expect(waitMs({ ...bucket }, rate, at + wait - 0.01)).toBeGreaterThan(0);
      expect(waitMs({ ...bucket }, rate, at + wait)).toBe(0);
    }
  });

  it("asks for no more patience than the rate that holds now", () => {
    const buckets = createTokenBuckets(10);
    const slow = { requests: 1, perMs: 3_600_000, burst: 10 };
    expect(passing(buckets, "a", 0, { by: slow })).toBe(10);
    expect(waitMs(buckets.of("a", 0), rate, 0)).toBeCloseTo(100);
    expect(waitMs(buckets.of("a", 100), rate, 100)).toBe(0);
  });
});

describe("many token buckets", () => {
  it("drop full buckets, and no others", () => {
    const buckets = createTokenBuckets(1_000);
    for (let i = 0; i < 100; i += 1) passing(buckets, `early ${i}`, 0, { of: 1 });
    for (let i = 0; i < 100; i += 1) passing(buckets, `late ${i}`, 50);
    buckets.sweep(60, 1_000);
    expect(buckets.size).toBe(200);
    buckets.sweep(100, 150);
    buckets.sweep(100, 150);
    expect(buckets.size).toBe(100);
    expect(passing(buckets, "late 7", 100)).toBe(0);
    buckets.sweep(1_000, 1_000);
    expect(buckets.size).toBe(0);
  });

  it("are limited, and the fullest of a few is dropped", () => {
    const buckets = createTokenBuckets(100);
    expect(passing(buckets, "spent", 0)).toBe(5);
    for (let i = 0; i < 10_000; i += 1) passing(buckets, `other ${i}`, 0, { of: 1 });
    expect(buckets.size).toBe(100);
    // Made-up names gain a caller nothing.
    expect(passing(buckets, "spent", 0)).toBe(0);
  });
});
