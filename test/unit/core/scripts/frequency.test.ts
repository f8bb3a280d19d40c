import { describe, expect, it } from "vitest";
import { nextDue, parseFrequency } from "../../../../src/core/scripts/frequency.ts";

const every = (text: string) => {
  const read = parseFrequency(text);
  return read.ok ? read.everyMs : read.problem;
};

describe("how often a sync runs", () => {
  it.each([
    ["every 30 seconds", 30_000],
    ["every 5 minutes", 300_000],
    ["every 5m", 300_000],
    ["every hour", 3_600_000],
    ["every half hour", 1_800_000],
    ["every quarter hour", 900_000],
    ["every half an hour", 1_800_000],
    ["Every Day", 86_400_000],
    ["every week", 604_800_000],
    ["every month", 30 * 86_400_000],
    ["1d", 86_400_000],
    ["1h", 3_600_000],
    ["30s", 30_000],
    [" 90 mins ", 5_400_000],
  ])("reads %j", (text, ms) => {
    expect(every(text)).toBe(ms);
  });

  it.each(["0d", "every 1s", "29s", "every 0 hours"])("X08 refuses %j, which is too often", (text) => {
    expect(every(text)).toMatch(/at least 30 seconds/);
  });

  it.each(["banana", "", "every", "hour", "d", "5", "every 5", "-1d", "1.5h", "1d 2h", "every half", "every  "])(
    "X08 refuses %j, which is no frequency",
    (text) => {
      expect(every(text)).toMatch(/must be a frequency/);
    },
  );

  it.each(["32d", "every 2 months"])("refuses %j, which is too seldom", (text) => {
    expect(every(text)).toMatch(/at most 31 days/);
  });
});

describe("when it is due next", () => {
  const anchor = Date.parse("2026-03-28T10:00:00Z");
  const dayMs = 86_400_000;

  it("is due after a whole step, and never at the given time", () => {
    expect(nextDue(anchor, dayMs, anchor)).toBe(anchor + dayMs);
    expect(nextDue(anchor + 1, dayMs, anchor)).toBe(anchor + dayMs);
    expect(nextDue(anchor + dayMs - 1, dayMs, anchor)).toBe(anchor + dayMs);
    expect(nextDue(anchor - 1, dayMs, anchor)).toBe(anchor);
  });

  it("skips missed times, and keeps the rhythm", () => {
    expect(nextDue(anchor + 3.5 * dayMs, dayMs, anchor)).toBe(anchor + 4 * dayMs);
  });

  it("X08 runs once when clocks go forward, and once when they go back", () => {
    for (const day of ["2026-03-28T10:00:00Z", "2026-10-24T10:00:00Z"]) {
      const from = Date.parse(day);
      const dues: number[] = [];
      for (let at = nextDue(from, dayMs, from); dues.length < 3; at = nextDue(at, dayMs, from)) dues.push(at);
      expect(dues).toEqual([from + dayMs, from + 2 * dayMs, from + 3 * dayMs]);
    }
  });
});
