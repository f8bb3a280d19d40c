import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { longestAheadMs, refreshAheadMs } from "../../../../src/broker/credentials/refresh-ahead.ts";
import { ProviderSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

const expiresAtMs = 10_000_000;
const aheadOf = (lifeMs: number | undefined, longestMs?: number, jitter = 0) =>
  expiresAtMs - refreshAheadMs({ expiresAtMs, lifeMs, longestMs, jitter });

it("refreshes a tenth of the lifetime ahead, at most an hour, and no earlier than the provider accepts", () => {
  expect(aheadOf(600_000)).toBe(60_000);
  expect(aheadOf(undefined)).toBe(360_000);
  expect(aheadOf(30 * 86_400_000)).toBe(3_600_000);
  expect(aheadOf(600_000, 25_000)).toBe(25_000);
  expect(aheadOf(600_000, 25_000, 1)).toBe(12_500);
  expect(aheadOf(100_000, 25_000)).toBe(10_000);
});

it("reads from a description how early a refresh is accepted", () => {
  const of = (refreshTokens: object) =>
    longestAheadMs(create(ProviderSchema, { auth: { case: "oauth2", value: { refreshTokens } } }));
  expect(of({ maxAhead: { seconds: 25n } })).toBe(25_000);
  expect(of({})).toBeUndefined();
  expect(longestAheadMs(create(ProviderSchema, { auth: { case: "basic", value: {} } }))).toBeUndefined();
});
