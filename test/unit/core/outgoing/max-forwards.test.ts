import { expect, it } from "vitest";
import { countedForward } from "../../../../src/core/outgoing/max-forwards.ts";

it.each([
  [
    ["Max-Forwards", "3", "X", "1"],
    ["Max-Forwards", "2", "X", "1"],
  ],
  [
    ["mAX-fORWARDS", "1"],
    ["mAX-fORWARDS", "0"],
  ],
  [
    ["Nango-Proxy-Max-Forwards", "2"],
    ["Nango-Proxy-Max-Forwards", "1"],
  ],
  [
    ["Max-Forwards", "99999999999999999999999"],
    ["Max-Forwards", "1000000"],
  ],
  [
    ["Max-Forwards", "010"],
    ["Max-Forwards", "9"],
  ],
  [
    ["X", "1"],
    ["X", "1"],
  ],
  [[], []],
  [["Max-Forwards", "0"], "none"],
  [["X", "1", "Max-Forwards", "00"], "none"],
  [["Max-Forwards", ""], "wrong"],
  [["Max-Forwards", "-1"], "wrong"],
  [["Max-Forwards", "1.5"], "wrong"],
  [["Max-Forwards", "0x1"], "wrong"],
  [["Max-Forwards", "3, 4"], "wrong"],
  [["Max-Forwards", "3", "max-forwards", "3"], "wrong"],
  [["Max-Forwards", "3", "Nango-Proxy-Max-Forwards", "0"], "wrong"],
])("turns %j into %j", (fields, expected) => {
  const before = [...fields];
  expect(countedForward(fields)).toEqual(expected);
  expect(fields).toEqual(before);
});
