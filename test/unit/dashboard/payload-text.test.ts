import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

interface BytesText {
  readonly indentedJson: (text: string) => string | undefined;
  readonly visibleText: (text: string) => string;
}

// By its path: the types of the dashboard are those of a browser.
const { indentedJson, visibleText } = (await import(
  fileURLToPath(new URL("../../../src/dashboard/data/bytes.ts", import.meta.url))
)) as BytesText;

describe("indented JSON", () => {
  it.each([
    ['{"a":[1,{"b":[]}],"c":{}}', { a: [1, { b: [] }], c: {} }],
    ["  [ ]  ", []],
    ['{"a":"{\\"b\\": [1, 2]}","c\\\\":"\\\\"}', { a: '{"b": [1, 2]}', "c\\": "\\" }],
    ['"text"', "text"],
    ["[true,null,-1.5e3]", [true, null, -1500]],
  ])("of %s looks as JSON.stringify writes it", (text, value) => {
    expect(JSON.parse(indentedJson(text) ?? "")).toEqual(value);
    if (!text.includes("e3")) expect(indentedJson(text)).toBe(JSON.stringify(value, undefined, 2));
  });

  it("keeps numbers that JavaScript cannot hold", () => {
    expect(indentedJson('{"id":12345678901234567890,"rate":1.10}')).toBe(
      '{\n  "id": 12345678901234567890,\n  "rate": 1.10\n}',
    );
  });

  it("leaves alone what is not JSON", () => {
    for (const text of ["", "{", "a=b&c=d", "{'a': 1}"]) expect(indentedJson(text)).toBeUndefined();
  });
});

it("characters that nobody can see, or that turn text around, are written out", () => {
  expect(visibleText("a\u202egnp.exe\0\u{e0001}\u200b")).toBe("a\\u{202e}gnp.exe\\u{0}\\u{e0001}\\u{200b}");
  expect(visibleText("line\n\ttab 👩‍💻 größe")).toBe("line\n\ttab 👩‍💻 größe");
});
