import { expect, it } from "vitest";
import { pageTokens } from "../../../../src/broker/stored/page-token.ts";

const tokens = pageTokens(["connections", { environment: "dev", tags: { a: "1" } }]);

it.each(["", "a", "a\0b\0c", "é🙂", "\n", "x".repeat(1_000), "__proto__"])("reads its own token: %j", (position) => {
  const token = tokens.write(position);
  expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
  expect(tokens.read(token)).toBe(position);
});

it("knows the first page by an empty token", () => {
  expect(tokens.read("")).toBeUndefined();
});

it.each([
  "A",
  "AAAA",
  "garbage",
  "=",
  " ",
  "é",
  "\0",
  `${tokens.write("x")}=`,
  ` ${tokens.write("x")}`,
  tokens.write("x").slice(1),
  `A${tokens.write("x")}`,
  tokens.write("").slice(0, -1),
])("refuses a foreign token: %j", (token) => {
  expect(() => tokens.read(token)).toThrow(expect.objectContaining({ code: "invalid_query_params" }));
});

it("refuses the token of another question, however little it differs", () => {
  const token = tokens.write("x");
  for (const question of [
    ["connections", { environment: "dev", tags: { a: "2" } }],
    ["connections", { environment: "prod", tags: { a: "1" } }],
    ["providers", { environment: "dev", tags: { a: "1" } }],
    ["connections"],
  ]) {
    expect(() => pageTokens(question).read(token)).toThrow(expect.objectContaining({ code: "invalid_query_params" }));
  }
});
