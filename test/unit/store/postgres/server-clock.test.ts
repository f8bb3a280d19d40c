import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createServerClock } from "../../../../src/store/postgres/server-clock.ts";

let nowMs = 0;
beforeEach(() => {
  nowMs = 1_000;
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
});
afterEach(() => void vi.restoreAllMocks());

it("keeps the estimate of a fast response when a slow one follows", () => {
  const clock = createServerClock();
  clock.set(50_000, nowMs - 2);
  nowMs += 500;
  clock.set(60_000, nowMs - 400);
  expect(clock.now()).toBe(50_500);
});

it("prefers a slow response once the fast one is so old that the clocks may have drifted", () => {
  const clock = createServerClock();
  clock.set(50_000, nowMs - 2);
  nowMs += 60_000;
  clock.set(120_000, nowMs - 400);
  expect(clock.now()).toBe(120_000);
});
