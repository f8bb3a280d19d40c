import { performance } from "node:perf_hooks";
import { beforeEach, expect, it, vi } from "vitest";
import { createLoopShare } from "../../../../src/base/loop/loop-share.ts";

/** What the loop's meter reads: it counts the time of a machine that does other work as busy, too. */
const loop = { nowMs: 0, active: 0, idle: 0 };

beforeEach(() => {
  vi.spyOn(performance, "now").mockImplementation(() => loop.nowMs);
  vi.spyOn(performance, "eventLoopUtilization").mockImplementation((mark) => {
    const [active, idle] = [loop.active - (mark?.active ?? 0), loop.idle - (mark?.idle ?? 0)];
    return { active, idle, utilization: active / (active + idle) };
  });
  return () => void vi.restoreAllMocks();
});

function busy(ms: number): void {
  loop.nowMs += ms;
  loop.active += ms;
}

function sleep(ms: number): void {
  loop.nowMs += ms;
  loop.idle += ms;
}

it("rests after the loop was really busy", async () => {
  vi.restoreAllMocks();
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 1_000 });
  await new Promise(setImmediate);
  for (const until = performance.now() + 100; performance.now() < until; );
  // The loop counts its busy time at the end of a turn.
  await new Promise(setImmediate);
  expect(share.restMs()).toBeGreaterThan(20);
});

it("admits a burst, and then pauses for what it owes", () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 1_000 });
  busy(2);
  expect(share.restMs()).toBe(0);
  busy(30);
  const owed = share.restMs();
  expect(owed).toBeGreaterThan(25);
  expect(owed).toBeLessThan(500);
  sleep(owed + 20);
  expect(share.restMs()).toBe(0);
});

it("saves no credit from idle time", () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 1_000 });
  sleep(200);
  expect(share.restMs()).toBe(0);
  busy(30);
  expect(share.restMs()).toBeGreaterThan(20);
});

it("starts some work after a while, however busy the loop", () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 5, mostMs: 40 });
  busy(30);
  expect(share.restMs()).toBeLessThanOrEqual(40);
  expect(share.restMs()).toBeGreaterThan(0);
  for (let i = 0; i < 5; i += 1) busy(10);
  expect(share.restMs()).toBe(0);
  busy(10);
  expect(share.restMs()).toBeGreaterThan(0);
});

it("does not waive a debt for an earlier pause", () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 60 });
  busy(30);
  expect(share.restMs()).toBeGreaterThan(0);
  // Less is owed than the maximum, so that nothing is waived.
  while (share.restMs() > 0) sleep(2);
  sleep(60);
  busy(80);
  expect(share.restMs()).toBeGreaterThan(0);
});
