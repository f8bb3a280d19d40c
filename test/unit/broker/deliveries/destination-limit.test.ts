import { expect, it } from "vitest";
import { destinationLimit } from "../../../../src/broker/deliveries/queues/destination-limit.ts";

/** A replica's part, as it has an even share of the partitions. */
const shareOf = (replicas: number) => (limit: number) =>
  Math.max(1, Math.floor((limit * Math.floor(64 / replicas)) / 64));

it.each([
  [1, 32],
  [2, 32],
  [3, 32],
  [4, 32],
  [9, 14],
])("lets each of %i replicas have %i deliveries at once to one destination", (replicas, each) => {
  expect(destinationLimit(undefined, shareOf(replicas))).toBe(each);
  expect(each * replicas).toBeLessThanOrEqual(128);
});

it("divides a limit that is set, at least one each", () => {
  expect([1, 2, 3, 9].map((replicas) => destinationLimit(32, shareOf(replicas)))).toEqual([32, 16, 10, 3]);
  expect(destinationLimit(1, shareOf(3))).toBe(1);
});
