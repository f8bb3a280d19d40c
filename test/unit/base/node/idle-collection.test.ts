import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { collectWhenIdle } from "../../../../src/base/node/idle-collection.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const mib = 1024 * 1024;

/** A process whose CPU time and heap the test sets. */
function startProcess() {
  const state = { cpuMicros: 0, takenBytes: 60 * mib, collections: 0 };
  const end = collectWhenIdle({
    lookEveryMs: 5_000,
    cpuMicros: () => state.cpuMicros,
    takenBytes: () => state.takenBytes,
    collect() {
      state.collections += 1;
      state.takenBytes = 30 * mib;
    },
  });
  return { state, end };
}

it("collects soon after the start, and again only after the heap has grown and a minute without work", () => {
  const { state, end } = startProcess();
  state.cpuMicros += 1_000_000;
  vi.advanceTimersByTime(5_000);
  vi.advanceTimersByTime(5_000);
  expect(state.collections).toBe(0);
  vi.advanceTimersByTime(5_000);
  expect(state.collections).toBe(1);
  vi.advanceTimersByTime(300_000);
  expect(state.collections).toBe(1);
  state.takenBytes = 45 * mib;
  vi.advanceTimersByTime(5_000);
  expect(state.collections).toBe(2);
  // A pause between two loads is not used.
  state.takenBytes = 45 * mib;
  vi.advanceTimersByTime(30_000);
  state.cpuMicros += 1_000_000;
  vi.advanceTimersByTime(60_000);
  expect(state.collections).toBe(2);
  vi.advanceTimersByTime(5_000);
  expect(state.collections).toBe(3);
  end();
});

it("never collects while the process works", () => {
  const { state, end } = startProcess();
  for (let i = 0; i < 20; i += 1) {
    state.cpuMicros += 500_000;
    vi.advanceTimersByTime(5_000);
  }
  expect(state.collections).toBe(0);
  end();
});
