import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { type CensusRow, createCensusRows } from "../../../../../src/broker/connections/census/census-rows.ts";
import { seeded } from "../../../../support/runner/seeded.ts";

it("keeps the rows of a model through random changes, newest first", () => {
  const random = seeded(7);
  const below = (limit: number) => Math.floor(random() * limit);
  const rows = createCensusRows();
  const model = new Map<number, CensusRow>();
  for (let i = 0; i < 20_000; i += 1) {
    const number = 1 + below(3_000);
    if (random() < 0.35) {
      expect(rows.remove(number)).toBe(model.get(number)?.group);
      model.delete(number);
      continue;
    }
    const id = model.get(number)?.id ?? (random() < 0.5 ? randomUUID() : `user-${number}-${"x".repeat(below(30))}`);
    const row = { number, group: below(5), id };
    expect(rows.put(row)).toBe(model.get(number)?.group);
    model.set(number, row);
  }
  expect(rows.count).toBe(model.size);
  const newest = [...model.values()].sort((one, other) => other.number - one.number);
  const all = { before: Number.POSITIVE_INFINITY, limit: 10_000 };
  expect(rows.newest({ ...all, isWanted: () => true })).toEqual(newest);
  const wanted = newest.filter(({ group, number }) => group === 2 && number < 1_500).slice(0, 40);
  expect(rows.newest({ before: 1_500, limit: 40, isWanted: (group) => group === 2 })).toEqual(wanted);
  for (const number of model.keys()) rows.remove(number);
  expect([rows.count, rows.newest({ ...all, isWanted: () => true })]).toEqual([0, []]);
});
