import { expect, it } from "vitest";
import { createRefreshBreaker } from "../../../../../src/broker/credentials/refresh/refresh-breaker.ts";

const failed = (kind: "passing" | "client_refused" | "grant_dead", nowMs: number, retryAfterMs?: number) => ({
  kind,
  code: "x",
  retryAfterMs,
  nowMs,
  random: 1,
});

it("asks no more on behalf of an integration whose client was refused once", () => {
  const breaker = createRefreshBreaker();
  breaker.noteFailure("a", failed("client_refused", 0));
  expect(breaker.closedUntil("a", 4_999)).toMatchObject({ reason: "client", untilMs: 5_000 });
  expect(breaker.closedUntil("b", 4_999)).toBeUndefined();
  expect(breaker.counts(4_999)).toEqual({ client: 1, endpoint: 0 });
});

it("admits one refresh when the time is over, and the others after its success", () => {
  const breaker = createRefreshBreaker();
  breaker.noteFailure("a", failed("client_refused", 0));
  expect(breaker.enter("a", 5_000)).toHaveProperty("leave");
  expect(breaker.enter("a", 5_001)).toMatchObject({ closed: { reason: "client" } });
  breaker.noteFailure("a", failed("client_refused", 5_100));
  expect(breaker.closedUntil("a", 15_000)).toMatchObject({ untilMs: 15_100 });
  expect(breaker.enter("a", 15_100)).toHaveProperty("leave");
  breaker.noteSuccess("a");
  expect(breaker.closedUntil("a", 15_101)).toBeUndefined();
});

it("admits the next one after one without a result", () => {
  const breaker = createRefreshBreaker();
  breaker.noteFailure("a", failed("client_refused", 0));
  // A look is no probe.
  expect(breaker.closedUntil("a", 5_000)).toBeUndefined();
  const entered = breaker.enter("a", 5_000);
  expect(breaker.closedUntil("a", 94_999)).toBeDefined();
  if ("leave" in entered) entered.leave();
  expect(breaker.closedUntil("a", 94_999)).toBeUndefined();
});

it("takes five failures in a row for the endpoint's, and obeys its Retry-After", () => {
  const breaker = createRefreshBreaker();
  for (let i = 0; i < 4; i += 1) breaker.noteFailure("a", failed("passing", i));
  expect(breaker.closedUntil("a", 4)).toBeUndefined();
  breaker.noteFailure("a", failed("passing", 4, 60_000));
  expect(breaker.closedUntil("a", 60_003)).toMatchObject({ reason: "endpoint", untilMs: 60_004 });
});

it("closes after a refused grant: the provider answers", () => {
  const breaker = createRefreshBreaker();
  for (let i = 0; i < 4; i += 1) breaker.noteFailure("a", failed("passing", i));
  breaker.noteFailure("a", failed("grant_dead", 4));
  breaker.noteFailure("a", failed("passing", 5));
  expect(breaker.closedUntil("a", 5)).toBeUndefined();
});

it("waits longer and longer, and never longer than five minutes", () => {
  const breaker = createRefreshBreaker();
  let at = 0;
  const waits = Array.from({ length: 9 }, () => {
    breaker.noteFailure("a", failed("client_refused", at));
    const until = breaker.closedUntil("a", at)?.untilMs ?? 0;
    const wait = until - at;
    at = until;
    return wait / 1_000;
  });
  expect(waits).toEqual([5, 10, 20, 40, 80, 160, 300, 300, 300]);
});

it("takes a hundred that fail at once for one failure of the endpoint", () => {
  const breaker = createRefreshBreaker();
  for (let i = 0; i < 100; i += 1) breaker.noteFailure("a", failed("passing", i));
  expect(breaker.closedUntil("a", 100)).toMatchObject({ untilMs: 5_004 });
  breaker.noteFailure("a", failed("passing", 101, 20_000));
  expect(breaker.closedUntil("a", 101)).toMatchObject({ untilMs: 20_101 });
});

it("is not kept closed by a clock that was turned back", () => {
  const breaker = createRefreshBreaker();
  const day = 86_400_000;
  breaker.noteFailure("a", failed("client_refused", day));
  expect(breaker.closedUntil("a", 0)).toBeUndefined();
  breaker.noteFailure("a", failed("client_refused", 0));
  expect(breaker.closedUntil("a", 1)).toMatchObject({ untilMs: 10_000 });
});
