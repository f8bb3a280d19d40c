import { expect, it } from "vitest";
import { partitionCount, partitionOf } from "../../../../src/broker/partitions/partition-of.ts";
import { fairOwners, type PartitionOwners } from "../../../../src/broker/partitions/shares.ts";

const nobodys: PartitionOwners = Array.from({ length: partitionCount }, () => undefined);
const countsOf = (owners: PartitionOwners) => Object.groupBy(owners, (owner) => owner ?? "");
const sizesOf = (owners: PartitionOwners) =>
  Object.fromEntries(Object.entries(countsOf(owners)).map(([a, b]) => [a, b?.length]));
const movesBetween = (a: PartitionOwners, b: PartitionOwners) =>
  a.filter((owner, i) => owner !== undefined && owner !== b[i]).length;

it("spreads texts over all partitions, always the same way", () => {
  const counts = Array.from({ length: partitionCount }, () => 0);
  for (let i = 0; i < 64_000; i += 1) {
    const number = partitionOf(`dev\0google\0connection-${i}`);
    counts[number] = (counts[number] ?? 0) + 1;
  }
  expect(Math.min(...counts)).toBeGreaterThan(700);
  expect(Math.max(...counts)).toBeLessThan(1_300);
  expect([partitionOf(""), partitionOf("dev\0a"), partitionOf("é\u{1f511}")]).toEqual([
    partitionOf(""),
    partitionOf("dev\0a"),
    partitionOf("é\u{1f511}"),
  ]);
});

it("gives a member that is alone everything", () => {
  expect(sizesOf(fairOwners(nobodys, ["a"]))).toEqual({ a: 64 });
});

it("gives members even shares, with the fewest moves", () => {
  const alone = fairOwners(nobodys, ["b"]);
  const three = fairOwners(alone, ["a", "b", "c"]);
  expect(sizesOf(three)).toEqual({ a: 21, b: 22, c: 21 });
  expect(movesBetween(alone, three)).toBe(42);
  const four = fairOwners(three, ["a", "b", "c", "d"]);
  expect(sizesOf(four)).toEqual({ a: 16, b: 16, c: 16, d: 16 });
  expect(movesBetween(three, four)).toBe(16);
});

it("moves only what a dead member had", () => {
  const three = fairOwners(nobodys, ["a", "b", "c"]);
  const rest = fairOwners(
    three.map((owner) => (owner === "b" ? undefined : owner)),
    ["a", "c"],
  );
  expect(sizesOf(rest)).toEqual({ a: 32, c: 32 });
  expect(rest.filter((owner, i) => three[i] !== "b" && owner !== three[i])).toEqual([]);
});

it("changes nothing that is even already", () => {
  const even = fairOwners(nobodys, ["a", "b", "c"]);
  expect(fairOwners(even, ["c", "b", "a"])).toEqual(even);
});

it("gives at most one each to more members than partitions", () => {
  const many = Array.from({ length: 100 }, (_, i) => `member-${i}`);
  const sizes = Object.values(sizesOf(fairOwners(nobodys, many)));
  expect(sizes).toHaveLength(64);
  expect(new Set(sizes)).toEqual(new Set([1]));
});
