import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createSharedQuery } from "../../../../src/store/postgres/shared-query.ts";

it("sends one query for all concurrent callers, and never an earlier result", async () => {
  let asks = 0;
  let now = 0;
  const ask = createSharedQuery(async () => {
    asks += 1;
    const read = now;
    await sleep(2);
    return read;
  });
  const answered: Promise<boolean>[] = [];
  for (let i = 0; i < 200; i += 1) {
    now += 1;
    const came = now;
    answered.push(ask().then((read) => read >= came));
    if (i % 20 === 19) await sleep(1);
  }
  expect((await Promise.all(answered)).every((isNew) => isNew)).toBe(true);
  expect(asks).toBeLessThan(20);
  expect(asks).toBeGreaterThan(2);
});

it("fails the callers of a failed query, and no later ones", async () => {
  let asks = 0;
  const ask = createSharedQuery(async () => {
    asks += 1;
    const mine = asks;
    await sleep(1);
    if (mine === 1) throw new Error("away");
    return mine;
  });
  const first = Promise.allSettled([ask(), ask()]);
  await sleep(0);
  expect(await ask()).toBe(2);
  expect((await first).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await ask()).toBe(3);
});
