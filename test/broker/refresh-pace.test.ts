import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createRefreshPace } from "../../src/broker/refresh-pace.ts";

describe("the pace of renewals", () => {
  it("lets a few begin, and the others one by one as those leave", async () => {
    const pace = createRefreshPace();
    const left: (() => void)[] = [];
    let most = 0;
    let begun = 0;
    const all = Array.from({ length: 100 }, async () => {
      const leave = await pace.begin();
      begun += 1;
      left.push(leave);
      most = Math.max(most, left.length);
    });
    for (; begun < 100 || left.length > 0; await sleep(0)) {
      const leave = left.shift();
      leave?.();
      // Twice is once.
      leave?.();
    }
    await Promise.all(all);
    expect(most).toBe(8);
  });

  it("keeps nothing waiting that a provider has given, and lets it go first", async () => {
    const pace = createRefreshPace();
    const begun = await Promise.all(Array.from({ length: 8 }, () => pace.begin()));
    let isIn = false;
    const next = pace.begin().then((leave) => {
      isIn = true;
      return leave;
    });
    const leaves = Array.from({ length: 5 }, () => pace.enter());
    for (const leave of begun.slice(0, 5)) leave();
    await sleep(5);
    expect(isIn).toBe(false);
    for (const leave of leaves) leave();
    (await next)();
    for (const leave of begun) leave();
    (await pace.begin())();
  });
});
