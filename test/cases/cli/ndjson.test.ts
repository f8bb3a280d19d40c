import { expect, it } from "vitest";
import { maxLineBytes, type NdjsonLine, readNdjson } from "../../../src/cli/terminal/ndjson.ts";

async function read(text: string | Buffer, chunkBytes = Infinity): Promise<NdjsonLine[]> {
  const bytes = Buffer.from(text);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
  }
  const lines: NdjsonLine[] = [];
  for await (const line of readNdjson(chunks())) lines.push(line);
  return lines;
}

const shown = (lines: readonly NdjsonLine[]) =>
  lines.map(({ line, content }) => [line, "wrong" in content ? content.wrong.message : content.value]);

it.each([1, 2, 3, 7, Infinity])("reads the same in pieces of %d bytes", async (chunkBytes) => {
  const lines = await read('{"a":1}\n\n{"b":"ü\\n"}\r\n  \n{"c":3}', chunkBytes);
  expect(shown(lines)).toEqual([
    [1, { a: 1 }],
    [3, { b: "ü\n" }],
    [5, { c: 3 }],
  ]);
  expect(lines.map(({ end }) => end)).toEqual([8, 23, 33]);
});

it("I03 takes a byte order mark at the very beginning, and nowhere else", async () => {
  expect(shown(await read('\ufeff{"a":1}\n\ufeff{"b":2}\n', 1))).toEqual([
    [1, { a: 1 }],
    [2, "the line is not JSON"],
  ]);
});

it("I03 takes CRLF", async () => {
  expect(shown(await read('{"a":1}\r\n{"b":2}\r\n'))).toEqual([
    [1, { a: 1 }],
    [2, { b: 2 }],
  ]);
});

it("I03 refuses a NUL with its line, even where JSON would be none without it", async () => {
  expect(shown(await read('{"a":1}\n{"b":"x\0y"}\n{"c":3}\n'))).toEqual([
    [1, { a: 1 }],
    [2, "the line holds a NUL, as its character 8"],
    [3, { c: 3 }],
  ]);
});

it("I03 refuses a line of 5 MiB by its number and continues after it", async () => {
  const long = `{"a":"${"x".repeat(5 * 1024 * 1024)}"}`;
  const lines = await read(`{"a":1}\n${long}\n{"c":3}\n`, 65_536);
  expect(shown(lines)).toEqual([
    [1, { a: 1 }],
    [2, "the line is longer than 1 MiB"],
    [3, { c: 3 }],
  ]);
  expect(lines[1]?.content).toMatchObject({ wrong: { code: "payload_too_large" } });
});

it("takes a line of exactly 1 MiB, and none that is a byte longer", async () => {
  const line = (bytes: number) => `{"a":"${"x".repeat(bytes - 8)}"}`;
  const [fits, tooLong] = await read(`${line(maxLineBytes)}\n${line(maxLineBytes + 1)}`, 65_536);
  expect(fits?.content).toHaveProperty("value");
  expect(tooLong?.content).toHaveProperty("wrong");
});

it("I03 refuses invalid UTF-8 with its line instead of replacing it", async () => {
  const bytes = Buffer.concat([
    Buffer.from('{"a":1}\n{"b":"'),
    Buffer.from([0xc3, 0x28]),
    Buffer.from('"}\n{"c":3}\n'),
  ]);
  expect(shown(await read(bytes))).toEqual([
    [1, { a: 1 }],
    [2, "the line is not UTF-8"],
    [3, { c: 3 }],
  ]);
});

it("names UTF-16 when it sees it", async () => {
  const [first] = await read(Buffer.from('\ufeff{"a":1}\n', "utf16le"));
  expect(first?.content).toEqual({
    wrong: { code: "invalid_json", message: "the line is UTF-16: save the file as UTF-8" },
  });
});

it("I03 refuses a trailing comma with its line and its place", async () => {
  expect(shown(await read('{"a":1},\n{"b":2,}\n'))).toEqual([
    [1, "the line is not JSON, from its character 8"],
    [2, "the line is not JSON, from its character 8"],
  ]);
});

it("I03 never reads a part of a line as a record", async () => {
  expect(shown(await read('{"a":1}\n{"b":{"c":1}'))).toEqual([
    [1, { a: 1 }],
    [2, expect.stringContaining("is not JSON")],
  ]);
});

it("refuses JSON that is not an object", async () => {
  expect(shown(await read('[{"a":1}]\n"x"\nnull\n1\n'))).toEqual([
    [1, "the line is an array; each line must be one object"],
    [2, "the line must be a JSON object"],
    [3, "the line must be a JSON object"],
    [4, "the line must be a JSON object"],
  ]);
});

it("never quotes its input", async () => {
  const canary = "s3cr3t-canary";
  const lines = [
    `{"a":"${canary}"},`,
    `{"a":"${canary}`,
    `${canary}`,
    `{"a":"${canary}\t"}`,
    `{"a" "${canary}"}`,
    `x${canary}`,
  ];
  expect(JSON.stringify(await read(lines.join("\n")))).not.toContain(canary);
});

it("reads nothing from an empty file", async () => {
  expect(await read("")).toEqual([]);
  expect(await read("\ufeff")).toEqual([]);
  expect(await read("\n\r\n")).toEqual([]);
});
