import { expect, it } from "vitest";
import { createDeliveryPace, fewest, mostEver } from "../../src/core/delivery-pace.ts";

const laps = (pace: ReturnType<typeof createDeliveryPace>, count: number, lateMs: number) => {
  for (let i = 0; i < count; i += 1) pace.lap(lateMs, pace.most);
};

it("lets all go while the loop is quick", () => {
  const pace = createDeliveryPace();
  laps(pace, 100, 1);
  expect(pace.most).toBe(mostEver);
});

it("holds back while the loop is late, and never altogether", () => {
  const pace = createDeliveryPace();
  pace.lap(50, mostEver);
  expect(pace.most).toBeLessThan(mostEver);
  laps(pace, 100, 50);
  expect(pace.most).toBe(fewest);
});

it("holds back at once, by what was begun and not by what might have been", () => {
  const pace = createDeliveryPace();
  pace.lap(50, 40);
  expect(pace.most).toBe(28);
});

it("lets more go, a little at a time, once it is quick again", () => {
  const pace = createDeliveryPace();
  laps(pace, 100, 50);
  pace.lap(0, fewest);
  expect(pace.most).toBeGreaterThan(fewest);
  expect(pace.most).toBeLessThan(2 * fewest + 1);
  laps(pace, 200, 0);
  expect(pace.most).toBe(mostEver);
});
