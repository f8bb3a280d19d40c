import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onBeat } from "../../../../src/base/loop/beat.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("runs everything at its interval, on one timer", () => {
  const quarters = vi.fn();
  const seconds = vi.fn();
  const odd = vi.fn();
  const ends = [onBeat(250, quarters), onBeat(1_000, seconds), onBeat(2_000, seconds)];
  expect(vi.getTimerCount()).toBe(1);
  ends.push(onBeat(70, odd));
  vi.advanceTimersByTime(4_000);
  expect([quarters, seconds, odd].map(({ mock }) => mock.calls.length)).toEqual([16, 6, 57]);
  for (const end of ends) end();
  expect(vi.getTimerCount()).toBe(0);
});

it("runs the others when one fails", () => {
  const failed = vi.spyOn(process, "nextTick").mockImplementation(() => {});
  const run = vi.fn();
  const ends = [
    onBeat(250, () => {
      throw new Error("broken");
    }),
    onBeat(250, run),
  ];
  vi.advanceTimersByTime(500);
  expect([run.mock.calls.length, failed.mock.calls.length]).toEqual([2, 2]);
  for (const end of ends) end();
  failed.mockRestore();
});
