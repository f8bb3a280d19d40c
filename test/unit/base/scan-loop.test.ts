import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createScanLoop } from "../../../src/base/scan-loop.ts";

/** A loop whose scans end when the test releases them. */
function heldLoop() {
  const scans: { end(count?: number): void; fail(error: Error): void }[] = [];
  const failures: unknown[] = [];
  const loop = createScanLoop({
    everyMs: 3_600_000,
    scan: () =>
      new Promise<number>((resolve, reject) => {
        scans.push({ end: (count = 0) => resolve(count), fail: reject });
      }),
    onFailure: (error) => failures.push(error),
  });
  return { loop, scans, failures };
}

const ticks = () => sleep(0);

it("does nothing when it is woken before its start or after its stop", async () => {
  const { loop, scans } = heldLoop();
  loop.wake();
  loop.start();
  await loop.stop();
  loop.wake();
  expect(scans).toHaveLength(0);
});

it("runs one more scan for all wakes during a scan, and never two at once", async () => {
  const { loop, scans } = heldLoop();
  loop.start();
  loop.wake();
  loop.wake();
  loop.wake();
  expect(scans).toHaveLength(1);
  scans[0]?.end();
  await ticks();
  expect(scans).toHaveLength(2);
  scans[1]?.end();
  await ticks();
  expect(scans).toHaveLength(2);
  await loop.stop();
});

it("joins the running scan, and returns the number it started", async () => {
  const { loop, scans } = heldLoop();
  const both = Promise.all([loop.scanNow(), loop.scanNow()]);
  expect(scans).toHaveLength(1);
  scans[0]?.end(7);
  expect(await both).toEqual([7, 7]);
});

it("reports a failed scan, counts nothing for it, and scans again", async () => {
  const { loop, scans, failures } = heldLoop();
  const failed = loop.scanNow();
  const cause = new Error("the store is away");
  scans[0]?.fail(cause);
  expect(await failed).toBe(0);
  expect(failures).toEqual([cause]);
  const next = loop.scanNow();
  scans[1]?.end(1);
  expect(await next).toBe(1);
});

it("stops only when no scan runs", async () => {
  const { loop, scans } = heldLoop();
  loop.start();
  loop.wake();
  let isStopped = false;
  const stopped = loop.stop().then(() => {
    isStopped = true;
  });
  await ticks();
  expect(isStopped).toBe(false);
  scans[0]?.end();
  await stopped;
  expect(scans).toHaveLength(1);
});

it("scans at its interval", async () => {
  let intervals = 0;
  const scanned = Promise.withResolvers<void>();
  const loop = createScanLoop({
    everyMs: 1,
    onInterval: () => {
      intervals += 1;
    },
    scan: async () => {
      if (intervals === 3) scanned.resolve();
      return 0;
    },
    onFailure() {},
  });
  loop.start();
  await scanned.promise;
  await loop.stop();
  expect(intervals).toBeGreaterThanOrEqual(3);
});
