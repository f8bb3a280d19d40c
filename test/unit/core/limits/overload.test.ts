import { expect, it } from "vitest";
import { createOverload } from "../../../../src/core/limits/overload.ts";

/** The log for laps of these lengths, a quarter of a second apart. */
function saying(laps: readonly number[], rule = { delayMs: 500, forMs: 1_000 }): string {
  const overload = createOverload(rule);
  return laps.map((lap, i) => (overload(lap, i * 250) ? "!" : ".")).join("");
}

it("starts when laps were long for a while without a break", () => {
  expect(saying([0, 600, 600, 600, 600, 600, 600])).toBe(".....!!");
  expect(saying([600, 600, 600, 0, 600, 600, 600, 600, 499, 600])).toBe("..........");
});

it("does not start after a single long lap: the process may have been stopped", () => {
  const overload = createOverload({ delayMs: 500, forMs: 1_000 });
  expect(overload(0, 0)).toBe(false);
  expect(overload(3_600_000, 3_600_000)).toBe(false);
  expect(overload(3, 3_600_250)).toBe(false);
  expect(overload(600, 3_602_000)).toBe(false);
});

it("ends after short laps of the same time, without changes in between", () => {
  const long = [600, 600, 600, 600, 600];
  expect(saying([...long, 0, 0, 0, 0, 0, 0])).toBe("....!!!!!..");
  expect(saying([...long, 0, 0, 0, 300, 0, 0, 0, 0, 0, 0])).toBe("....!!!!!!!!!..");
  expect(saying([...long, ...Array(20).fill(300)])).toBe(`....!${"!".repeat(20)}`);
});

it("never starts without a threshold", () => {
  expect(saying(Array(20).fill(10_000), { delayMs: 0, forMs: 100 })).toBe(".".repeat(20));
});
