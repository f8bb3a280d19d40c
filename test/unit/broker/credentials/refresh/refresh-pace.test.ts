import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { createRefreshPace } from "../../../../../src/broker/credentials/refresh/refresh-pace.ts";

const few = 6;
const most = 64;
let isOver = false;

afterEach(() => {
  isOver = true;
});

/** Counts the ticks of the loop, and calls a function in each. */
function countTurns(meanwhile = () => {}): { readonly now: number } {
  const turns = { now: 0 };
  isOver = false;
  void (async () => {
    for (; !isOver; await turn()) {
      turns.now += 1;
      meanwhile();
    }
  })();
  return turns;
}

function busyFor(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

describe("the pace of renewals", () => {
  it("starts with a few at once", async () => {
    const pace = createRefreshPace();
    await Promise.all(Array.from({ length: few }, () => pace.begin()));
  });

  it("starts a few in each tick of the loop, in order of arrival", async () => {
    const pace = createRefreshPace();
    const turns = countTurns();
    const begun: { readonly i: number; readonly turn: number }[] = [];
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const leave = await pace.begin();
        begun.push({ i, turn: turns.now });
        leave();
      }),
    );
    expect(begun.map(({ i }) => i)).toEqual(begun.map((_, at) => at));
    const inTurns = Map.groupBy(begun, (one) => one.turn);
    expect(Math.max(...[...inTurns.values()].map(({ length }) => length))).toBeLessThanOrEqual(few);
  });

  it("lets no new refresh overtake a queued one", async () => {
    const pace = createRefreshPace();
    await Promise.all(Array.from({ length: few }, () => pace.begin()));
    const order: string[] = [];
    const first = pace.begin().then(() => order.push("first"));
    // Long enough for room that has not been noticed yet.
    busyFor(45);
    await Promise.all([first, pace.begin().then(() => order.push("second"))]);
    expect(order).toEqual(["first", "second"]);
  });

  it("pauses for the loop before the next few", async () => {
    const pace = createRefreshPace();
    await Promise.all(Array.from({ length: few }, () => pace.begin()));
    const { idle: before } = performance.eventLoopUtilization();
    const since = performance.now();
    await pace.begin();
    const rested = performance.eventLoopUtilization().idle - before;
    // Or others have kept it busy for long.
    expect(rested >= 13.5 || performance.now() - since >= 39.5).toBe(true);
  });

  it("gives refreshes their share of a busy loop", async () => {
    const pace = createRefreshPace();
    countTurns(() => busyFor(3));
    for (let i = 0; i < 5 * few; i += 1) (await pace.begin())();
  });

  it("finishes a refresh first whose provider has answered", async () => {
    const pace = createRefreshPace();
    const leaves = Array.from({ length: most }, () => pace.enter());
    let isIn = false;
    const next = pace.begin().then((leave) => {
      isIn = true;
      return leave;
    });
    await sleep(40);
    expect(isIn).toBe(false);
    // A second call has no effect.
    leaves[0]?.();
    leaves[0]?.();
    (await next)();
    for (const leave of leaves) leave();
  });
});
