import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createLimiter } from "../../../src/base/limiter.ts";

it("admits a number of each kind at a time, in order, without delaying other kinds", async () => {
  const turns = createLimiter(2);
  const order: number[] = [];
  let open = 0;
  let most = 0;
  const one = async (i: number) => {
    const giveBack = await turns("a");
    order.push(i);
    open += 1;
    most = Math.max(most, open);
    await sleep(1);
    open -= 1;
    giveBack();
    // A second call has no effect.
    giveBack();
  };
  const all = Promise.all(Array.from({ length: 20 }, (_, i) => one(i)));
  const other = await turns("b");
  expect(order).toHaveLength(2);
  other();
  await all;
  expect(most).toBe(2);
  expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
  // The limiter is empty again: as many may enter as at first.
  await Promise.all([one(20), one(21), one(22)]);
  expect(most).toBe(2);
});
