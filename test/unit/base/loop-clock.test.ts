import { stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { createLoopClock } from "../../../src/base/loop-clock.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";

function clockForTest() {
  const clock = createLoopClock();
  onTestFinished(() => clock.close());
  return clock;
}

/** The process does something else, and looks at nothing. */
function busyFor(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

describe("a clock that pauses with the loop", () => {
  it("calls when it is so much later", async () => {
    const clock = clockForTest();
    const elapsed = startStopwatch();
    await new Promise<void>((resolve) => clock.after(200, resolve));
    expect(elapsed.passedMs).toBeGreaterThanOrEqual(195);
    expect(elapsed.ms).toBeLessThan(600);
  });

  it("does not count time that the process spent otherwise", async () => {
    const clock = clockForTest();
    const since = performance.now();
    const over = new Promise<number>((resolve) => clock.after(600, () => resolve(performance.now())));
    for (let i = 0; i < 3; i += 1) {
      busyFor(400);
      await sleep(1);
    }
    // Each of the three counts for a tenth of a second.
    expect((await over) - since).toBeGreaterThan(1_350);
  });

  it("handles arrived data before it calls", async () => {
    const clock = clockForTest();
    const order: string[] = [];
    const over = new Promise<void>((resolve) =>
      clock.after(60, () => {
        order.push("over");
        resolve();
      }),
    );
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    // After this come timers, and only then arrived I/O.
    setImmediate(() => {
      // The result is there long before the process reads it.
      void stat(".").then(() => {
        order.push("arrived");
        resolve();
      });
      busyFor(500);
    });
    await Promise.all([over, arrived]);
    expect(order).toEqual(["arrived", "over"]);
  });

  it("makes no call that was cancelled, or after it was closed", async () => {
    const clock = clockForTest();
    const called: string[] = [];
    const callOff = clock.after(60, () => called.push("called off"));
    clock.after(300, () => called.push("closed"));
    callOff();
    await sleep(200);
    clock.close();
    await sleep(250);
    expect(called).toEqual([]);
  });
});
