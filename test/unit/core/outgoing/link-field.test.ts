import { expect, it } from "vitest";
import { withLinkTargets, withRefreshTarget } from "../../../../src/core/outgoing/link-field.ts";

const led = (target: string) => `[${target}]`;

it.each([
  ["5; url=/a", "5; url=[/a]"],
  ["0;URL = '/a b' ", "0;URL = '[/a b]' "],
  ["0;/a", "0;[/a]"],
  ["1.5 , url=/a ", "1.5 , url=[/a] "],
  ['0;url="/a"b"', '0;url="[/a]"b"'],
  ["0;url='/a", "0;url='[/a]"],
  ["0;url=/it's", "0;url=[/it's]"],
  ["5", "5"],
  ["5; url=", "5; url="],
  ['5; url=""', '5; url=""'],
  ["soon; url=/a", "soon; url=/a"],
])("leads the target of the Refresh field %s", (value, expected) => {
  expect(withRefreshTarget(value, led)).toBe(expected);
});

it("reads each letter of a field once or twice, however long it is", () => {
  const blanks = " ".repeat(2_000_000);
  expect(withRefreshTarget(`5;url=a${blanks}b`, () => "c")).toBe("5;url=c");
  expect(withRefreshTarget(`5${blanks}`, led)).toHaveLength(2_000_001);
  expect(withRefreshTarget(`5;url="${blanks}`, () => "c")).toBe(`5;url="${blanks}`);
  expect(withLinkTargets(`<a>;${'"'.repeat(2_000_001)}`, () => "c")).toBe(`<c>;${'"'.repeat(2_000_001)}`);
  expect(withLinkTargets(`${blanks}<a`, led)).toBe(`${blanks}<a`);
  expect(withLinkTargets("<a>,".repeat(500_000), () => "")).toHaveLength(1_500_000);
});
