import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { seeded } from "../../support/runner/seeded.ts";

type LineDiff = (
  before: readonly string[],
  after: readonly string[],
) => readonly { readonly kind: "same" | "removed" | "added"; readonly text: string }[] | undefined;

// By its path: the types of the dashboard are those of a browser.
const { lineDiff } = (await import(
  fileURLToPath(new URL("../../../src/dashboard/data/line-diff.ts", import.meta.url))
)) as { readonly lineDiff: LineDiff };

it("names the lines that differ, and only these", () => {
  const shown = lineDiff(["{", "a", "b", "c", "}"], ["{", "a", "x", "c", "d", "}"]);
  const signs = { same: " ", removed: "-", added: "+" };
  expect(shown?.map(({ kind, text }) => signs[kind] + text)).toEqual([" {", " a", "-b", "+x", " c", "+d", " }"]);
});

it("both texts can be read from the difference", () => {
  const random = seeded(3);
  const text = () => Array.from({ length: Math.floor(random() * 12) }, () => "abc"[Math.floor(random() * 3)] ?? "");
  for (let round = 0; round < 200; round += 1) {
    const [before, after] = [text(), text()];
    const lines = lineDiff(before, after) ?? [];
    expect(lines.filter(({ kind }) => kind !== "added").map((line) => line.text)).toEqual(before);
    expect(lines.filter(({ kind }) => kind !== "removed").map((line) => line.text)).toEqual(after);
  }
});

it("gives up where the comparison would take long", () => {
  const many = (name: string) => Array.from({ length: 5_000 }, (_, i) => `${name}${i}`);
  expect(lineDiff(many("a"), many("b"))).toBeUndefined();
  expect(lineDiff([...many("a"), "x"], [...many("a"), "y"])).toHaveLength(5_002);
});
