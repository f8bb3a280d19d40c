import { expect, it } from "vitest";
import { valueAt } from "../../../src/providers/dotted-path.ts";

const answer = {
  ok: false,
  team: { id: "T1", none: null },
  "@odata.nextLink": "https://next",
  list: [{ id: "first" }, ["deep"]],
};

it.each([
  ["ok", false],
  ["team.id", "T1"],
  ["team.none", null],
  ["@odata\\.nextLink", "https://next"],
  ["list.0.id", "first"],
  ["list.1.0", "deep"],
  ["@odata.nextLink", undefined],
  ["team.id.length", undefined],
  ["team.other.id", undefined],
  ["team.none.id", undefined],
  ["list.2", undefined],
  ["list.-1", undefined],
  ["list.length", undefined],
  ["constructor", undefined],
  ["__proto__", undefined],
])("reads the value at %s", (path, value) => {
  expect(valueAt(path, answer)).toEqual(value);
});

it("reads a list from outside", () => {
  expect(valueAt("0.id", [{ id: "site" }])).toBe("site");
});
