import { setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import { createWriteBehind } from "../../../../src/base/loop/write-behind.ts";

const [most, few] = [16, 4];

/** A clock that moves only by the test, so that a slow machine does not count. */
function standingClock() {
  let ms = 0;
  vi.spyOn(performance, "now").mockImplementation(() => ms);
  return {
    pass(spentMs: number) {
      ms += spentMs;
    },
  };
}

afterEach(() => void vi.restoreAllMocks());

/** Queues this number of writes. */
function waiting(count: number) {
  let left = count;
  const pace = createWriteBehind({
    most,
    few,
    begin() {
      if (left === 0) return false;
      left -= 1;
      return true;
    },
  });
  return { pace, begun: () => count - left };
}

it("starts a few in each tick, until there are no more", async () => {
  standingClock();
  const { pace, begun } = waiting(2 * most + 1);
  pace.soon();
  const seen: number[] = [];
  for (let i = 0; i < 4; i += 1) {
    await turn();
    seen.push(begun());
  }
  expect(seen).toEqual([most, 2 * most, 2 * most + 1, 2 * most + 1]);
});

it("starts fewer while ticks are long", async () => {
  const clock = standingClock();
  const { pace, begun } = waiting(2 * most);
  pace.soon();
  clock.pass(10);
  await turn();
  expect(begun()).toBe(few);
  await turn();
  expect(begun()).toBe(few + most);
});

it("starts none before the current tick is over, however many microtasks that takes", async () => {
  const { pace, begun } = waiting(1);
  pace.soon();
  for (let i = 0; i < 100; i += 1) await undefined;
  expect(begun()).toBe(0);
  await turn();
  expect(begun()).toBe(1);
});

it("scans once a tick, however often it is triggered", async () => {
  standingClock();
  const { pace, begun } = waiting(3 * most);
  for (let i = 0; i < 5; i += 1) pace.soon();
  await turn();
  expect(begun()).toBe(most);
});

it("starts nothing once it is closed", async () => {
  const { pace, begun } = waiting(1);
  pace.soon();
  pace.close();
  await turn();
  pace.soon();
  await turn();
  expect(begun()).toBe(0);
});

it("pauses as its share of the loop requires, and continues by itself", async () => {
  const rests = [0, 0, 30, 0, 0];
  let begun = 0;
  const pace = createWriteBehind({
    most,
    few,
    share: { restMs: () => rests.shift() ?? 0 },
    begin() {
      if (begun === 4) return false;
      begun += 1;
      return true;
    },
  });
  const since = performance.now();
  pace.soon();
  await turn();
  expect(begun).toBe(2);
  // Further requests do not start it earlier.
  pace.soon();
  await turn();
  expect(begun).toBe(2);
  while (begun < 4) await turn();
  expect(performance.now() - since).toBeGreaterThan(25);
});
