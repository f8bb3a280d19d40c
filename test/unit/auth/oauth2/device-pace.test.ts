import { expect, it } from "vitest";
import { nextPollMs } from "../../../../src/auth/oauth2/device-pace.ts";

it.each([
  ["pending", 5_000, 5_000],
  ["slow_down", 5_000, 10_000],
  ["slow_down", 10_000, 15_000],
  ["passing", 5_000, 10_000],
  ["uncertain", 40_000, 60_000],
  ["passing", 90_000, 90_000],
  ["grant_dead", 5_000, undefined],
  ["client_refused", 5_000, undefined],
  ["misconfigured", 5_000, undefined],
  ["unusable", 5_000, undefined],
] as const)("O21: after %s at %s ms, asks again in %s ms", (kind, interval, next) => {
  expect(nextPollMs(interval, kind)).toBe(next);
});
