import { expect, it, vi } from "vitest";
import { createRecentCatchUp } from "../../../../src/broker/deliveries/attempts/recent-catch-up.ts";

it("asks the store once for all that begins at about the same time, and again later", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    let asked = 0;
    let answer = () => {};
    const caughtUp = createRecentCatchUp({
      caughtUp() {
        asked += 1;
        return new Promise<void>((resolve) => {
          answer = resolve;
        });
      },
    });
    const all = [caughtUp(), caughtUp()];
    expect(asked).toBe(1);
    answer();
    await Promise.all(all);
    expect(caughtUp()).toBeUndefined();
    vi.advanceTimersByTime(150);
    const later = caughtUp();
    expect(asked).toBe(2);
    // What was seen counts from the question, not from its answer.
    vi.advanceTimersByTime(150);
    answer();
    await later;
    void caughtUp();
    expect(asked).toBe(3);
  } finally {
    vi.useRealTimers();
  }
});

it("asks again after a failure", async () => {
  let asked = 0;
  const caughtUp = createRecentCatchUp({
    caughtUp() {
      asked += 1;
      return Promise.reject(new Error("away"));
    },
  });
  await expect(caughtUp()).rejects.toThrow("away");
  await expect(caughtUp()).rejects.toThrow("away");
  expect(asked).toBe(2);
});
