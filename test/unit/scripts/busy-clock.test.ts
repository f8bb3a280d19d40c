import { expect, it } from "vitest";
import { createBusyClock } from "../../../src/scripts/machine/busy-clock.ts";
import { createLimitWatch } from "../../../src/scripts/machine/limit-watch.ts";

/** Waits without using the CPU, as a thread does whose turn it is not. */
function waitWithoutCpu(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

it("counts CPU time from when the machine begins to run, and no time in which others have the CPU", () => {
  const clock = createBusyClock();
  clock.enter();
  const began = performance.now();
  waitWithoutCpu(200);
  expect(clock.ms).toBeLessThan(performance.now() - began - 100);
  while (clock.ms < 20);
});

it("ends a script that computes too long, and none that had to wait for the CPU", () => {
  const watch = createLimitWatch({ busyMs: 100, deadlineMs: 60_000 });
  watch.enter();
  waitWithoutCpu(300);
  expect(watch.mustStop()).toBe(false);
  while (!watch.mustStop());
  expect(watch.exceeded).toMatchObject({ code: "busy", message: expect.stringContaining("100 ms of CPU time") });
});
