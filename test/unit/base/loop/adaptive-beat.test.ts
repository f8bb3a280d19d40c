import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createAdaptiveBeat } from "../../../../src/base/loop/adaptive-beat.ts";
import { onBeat } from "../../../../src/base/loop/beat.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function startBeat() {
  const state = { isBusy: true, runs: 0 };
  const beat = createAdaptiveBeat({
    busyMs: 250,
    restMs: 1_000,
    run() {
      state.runs += 1;
      return state.isBusy;
    },
  });
  return { state, beat, runsIn: (ms: number) => count(state, ms) };
}

function count(state: { runs: number }, ms: number): number {
  const before = state.runs;
  vi.advanceTimersByTime(ms);
  return state.runs - before;
}

it("slows down when there is nothing to do, and is quick again at once when asked", () => {
  const { state, beat, runsIn } = startBeat();
  expect(runsIn(2_000)).toBe(8);
  state.isBusy = false;
  vi.advanceTimersByTime(2_000);
  expect(beat.isQuick).toBe(false);
  expect(runsIn(4_000)).toBe(4);
  state.isBusy = true;
  beat.quicken();
  expect(beat.isQuick).toBe(true);
  expect(runsIn(2_000)).toBe(8);
  beat.stop();
  expect(runsIn(2_000)).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

it("is quick again when a slow run finds something to do", () => {
  const { state, beat, runsIn } = startBeat();
  state.isBusy = false;
  vi.advanceTimersByTime(3_000);
  state.isBusy = true;
  vi.advanceTimersByTime(1_000);
  expect(runsIn(2_000)).toBe(8);
  beat.stop();
});

it("sets one timer for all, as slow as they allow", () => {
  const { state, beat } = startBeat();
  const seconds = vi.fn();
  const end = onBeat(1_000, seconds);
  state.isBusy = false;
  vi.advanceTimersByTime(4_000);
  expect(vi.getTimerCount()).toBe(1);
  const timers = vi.spyOn(globalThis, "setInterval");
  seconds.mockClear();
  vi.advanceTimersByTime(4_000);
  expect(seconds).toHaveBeenCalledTimes(4);
  expect(timers).not.toHaveBeenCalled();
  timers.mockRestore();
  beat.stop();
  end();
});
