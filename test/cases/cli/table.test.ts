import { expect, it } from "vitest";
import { createPaint } from "../../../src/cli/terminal/paint.ts";
import { createTable } from "../../../src/cli/terminal/table.ts";

const columns = [
  { title: "NAME", text: ({ name }: Row) => name },
  { title: "URL", text: ({ url }: Row) => url },
  { title: "N", text: ({ n }: Row) => String(n) },
];
interface Row {
  readonly name: string;
  readonly url: string;
  readonly n: number;
}
const plain = (_tone: string, text: string) => text;

it("aligns its columns and ends no line in blanks", () => {
  const table = createTable(columns, plain);
  const rows = [
    { name: "prod", url: "https://app/hooks", n: 1 },
    { name: "development", url: "", n: 22 },
  ];
  expect(table.draw(rows)).toBe(
    [
      "NAME         URL                N",
      "prod         https://app/hooks  1",
      "development  -                  22",
      "",
    ].join("\n"),
  );
});

it("writes its titles once and stays aligned over batches", () => {
  const table = createTable(columns, plain);
  table.draw([{ name: "a-long-name", url: "u", n: 1 }]);
  expect(table.draw([{ name: "b", url: "v", n: 2 }])).toBe("b            v    2\n");
  expect(table.draw([])).toBe("");
});

it("K07 shows control characters instead of sending them to the terminal", () => {
  const table = createTable(columns, plain);
  const drawn = table.draw([{ name: '\x1b[2Jx\n{"level":"fatal"}', url: "\u202egnp.exe", n: 1 }]);
  expect(drawn.split("\n")).toHaveLength(3);
  expect(drawn).toContain('\\u001b[2Jx\\u000a{"level":"fatal"}');
  expect(drawn).toContain("\\u202egnp.exe");
});

it("gives wide characters the room that they take", () => {
  const table = createTable(columns, plain);
  expect(
    table.draw([
      { name: "日本", url: "u", n: 1 },
      { name: "abcd", url: "u", n: 1 },
    ]),
  ).toContain("日本  u    1\nabcd  u    1");
});

it("colours on a terminal alone, and never where NO_COLOR is set", () => {
  const paint = (isTerminal: boolean, env = {}) => createPaint({ isTerminal, env })("bad", "x");
  expect(paint(true)).toBe("\x1b[31mx\x1b[0m");
  expect(paint(false)).toBe("x");
  expect(paint(true, { NO_COLOR: "1" })).toBe("x");
  expect(paint(true, { NO_COLOR: "" })).toBe("\x1b[31mx\x1b[0m");
});
