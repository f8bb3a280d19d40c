import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createLoopShare } from "../../../../src/base/loop/loop-share.ts";

function spin(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

/** Blocks for this time, and resolves one tick later: a loop's busy time is counted at its end. */
async function busy(ms: number): Promise<void> {
  await new Promise(setImmediate);
  spin(ms);
  await new Promise(setImmediate);
}

it("admits a burst, and then pauses for what it owes", async () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 1_000 });
  await busy(2);
  expect(share.restMs()).toBe(0);
  await busy(30);
  const owed = share.restMs();
  expect(owed).toBeGreaterThan(25);
  expect(owed).toBeLessThan(500);
  await sleep(owed + 20);
  expect(share.restMs()).toBe(0);
});

it("saves no credit from idle time", async () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 1_000 });
  await sleep(200);
  expect(share.restMs()).toBe(0);
  await busy(30);
  expect(share.restMs()).toBeGreaterThan(20);
});

it("starts some work after a while, however busy the loop", async () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 5, mostMs: 40 });
  await busy(30);
  expect(share.restMs()).toBeLessThanOrEqual(40);
  expect(share.restMs()).toBeGreaterThan(0);
  for (let i = 0; i < 5; i += 1) await busy(10);
  expect(share.restMs()).toBe(0);
  await busy(10);
  expect(share.restMs()).toBeGreaterThan(0);
});

it("does not waive a debt for an earlier pause", async () => {
  const share = createLoopShare({ idleForBusy: 2, owedMs: 20, mostMs: 60 });
  await busy(30);
  expect(share.restMs()).toBeGreaterThan(0);
  // Less is owed than the maximum, so that nothing is waived.
  while (share.restMs() > 0) await sleep(2);
  await sleep(60);
  await busy(80);
  expect(share.restMs()).toBeGreaterThan(0);
});
