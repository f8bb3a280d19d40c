import { expect, it } from "vitest";
import { Fault } from "../../../../src/base/fault.ts";
import { canonicalJson } from "../../../../src/core/dialect/canonical-json.ts";
import {
  effectOfSave,
  mergedDeeply,
  mergedRecord,
  newRecords,
  recordIds,
} from "../../../../src/core/scripts/record-change.ts";

const [before] = newRecords([{ id: "a", n: 1, deep: { b: [1, { y: 1, x: 2 }], a: null } }]);
if (before === undefined) throw new Error("one record is one record");
const known = { dataHash: before.dataHash, firstSeenMs: 1, deletedMs: 0 };
const hashOf = (record: unknown) => newRecords([record])[0] ?? before;

it("treats a record as equal in any order of its keys, and ignores its metadata", () => {
  const same = { deep: { a: null, b: [1, { x: 2, y: 1 }] }, _nango_metadata: { cursor: "c" }, n: 1, id: "a" };
  expect(effectOfSave(known, hashOf(same))).toBeUndefined();
  expect(effectOfSave(known, hashOf({ ...same, n: 2 }))).toBe("UPDATED");
  expect(effectOfSave(known, hashOf({ ...same, deep: { a: null, b: [{ x: 2, y: 1 }, 1] } }))).toBe("UPDATED");
});

it("treats a deleted record as new, equal or not", () => {
  expect(effectOfSave({ ...known, deletedMs: 5 }, before)).toBe("ADDED");
  expect(effectOfSave(undefined, before)).toBe("ADDED");
});

it("keeps ids as text, and of several with one id the last", () => {
  const records = newRecords([{ id: 7, n: 1 }, { id: "b" }, { id: "7", n: 2 }]);
  expect(records.map(({ id, data }) => [id, String(data)])).toEqual([
    ["7", '{"id":"7","n":2}'],
    ["b", '{"id":"b"}'],
  ]);
  expect(recordIds(["x", 7, { id: 8, more: true }])).toEqual(["x", "7", "8"]);
});

it.each([
  ["no object", [1], ["0"]],
  ["a list", [[]], ["0"]],
  ["no id", [{ id: "a" }, { n: 1 }], ["1", "id"]],
  ["an inherited id", [Object.create({ id: "a" })], ["0", "id"]],
  ["an empty id", [{ id: "" }], ["0", "id"]],
  ["an id of half a character", [{ id: "\ud800" }], ["0", "id"]],
  ["an id that is too long", [{ id: "x".repeat(256) }], ["0", "id"]],
  ["an id that is no number", [{ id: Number.NaN }], ["0", "id"]],
  ["an id that is an object", [{ id: {} }], ["0", "id"]],
  ["too much", [{ id: "a", text: "x".repeat(3 * 1024 * 1024) }], ["0"]],
  ["too deep", [{ id: "a", deep: JSON.parse(`${"[".repeat(100)}${"]".repeat(100)}`) }], ["0"]],
])("refuses %s and says where", (_what, records, path) => {
  try {
    newRecords(records);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    expect(error.mistakes.map((mistake) => mistake.path)).toEqual([path]);
    return;
  }
  throw new Error("it was taken");
});

it("merges objects field by field, and replaces anything else", () => {
  const patch = JSON.parse('{"a":{"x":2},"list":[3],"gone":null,"__proto__":{"y":1}}');
  const merged = mergedDeeply({ a: { x: 1, y: 1 }, list: [1, 2], gone: { b: 1 }, kept: true }, patch);
  expect(JSON.stringify(merged)).toBe('{"a":{"x":2,"y":1},"list":[3],"gone":null,"kept":true,"__proto__":{"y":1}}');
  expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
});

it("has only the new fields of a pruned record", () => {
  expect(String(mergedRecord("a", new Uint8Array(), { id: "a", n: 2 }).data)).toBe('{"id":"a","n":2}');
});

it("writes JSON with its keys sorted, and half a character as readers of UTF-8 take it", () => {
  const value = { b: [undefined, Number.NaN, -0, 1e21], a: "\ud83d", "\ud83d\ude00": 1, z: undefined };
  expect(canonicalJson(value, 10)).toBe('{"a":"\ufffd","b":[null,null,0,1e+21],"😀":1}');
  expect(canonicalJson([[1]], 1)).toBeUndefined();
});
