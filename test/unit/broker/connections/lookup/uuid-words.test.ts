import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { uuidOf, uuidWords } from "../../../../../src/broker/connections/lookup/uuid-words.ts";

const roundTrip = (id: string) => {
  const words = uuidWords(id);
  return words === undefined ? undefined : uuidOf(...words);
};

it("gives back every UUID as it was", () => {
  const edges = ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"];
  for (const id of [...edges, ...Array.from({ length: 1_000 }, () => randomUUID())]) expect(roundTrip(id)).toBe(id);
});

it.each([
  "0123456789abcdef0123456789abcdef",
  "01234567-89AB-cdef-0123-456789abcdef",
  "{01234567-89ab-cdef-0123-456789abcdef}",
  "01234567-89ab-cdef-0123-456789abcde",
  "01234567-89ab-cdef-0123-456789abcdeg",
  "",
])("does not compress other texts, or those that would not be restored: %s", (id) => {
  expect(uuidWords(id)).toBeUndefined();
});
