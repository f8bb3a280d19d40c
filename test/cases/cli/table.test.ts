import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { createPaint } from "../../../src/cli/terminal/paint.ts";
import { plainJson } from "../../../src/cli/terminal/plain-json.ts";
import { createTable } from "../../../src/cli/terminal/table.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { Connection_State, ConnectionSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { GetCallerResponseSchema } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { ProviderSchema, RefreshTokenRules_Use } from "../../../src/gen/latchkey/v1/provider_pb.ts";

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

const wide = [
  { title: "NAME", text: ({ name }: Row) => name },
  { title: "EMPTY", text: () => "" },
  { title: "URL", text: ({ url }: Row) => url },
  { title: "MORE", text: ({ url }: Row) => `${url}/more` },
];

it("fits on a terminal: empty columns go first, then long texts are cut, but the first", () => {
  const layout = { width: 40, brief: true };
  const rows = [{ name: "a-name-to-copy", url: "https://app.example/hooks", n: 1 }];
  expect(createTable(wide, plain, layout).draw(rows)).toBe(
    ["NAME            URL          MORE", "a-name-to-copy  https://ap…  https://ap…", ""].join("\n"),
  );
  const narrow = createTable(wide, plain, { width: 26, brief: true }).draw(rows);
  expect(narrow).toBe(["NAME            URL", "a-name-to-copy  https://a…", ""].join("\n"));
});

it("shows ages on a terminal, and times elsewhere", () => {
  const at = (secondsAgo: number) => timestampFromMs(Date.now() - secondsAgo * 1_000);
  const times = [{ title: "WHEN", time: (seconds: number) => at(seconds) }];
  const table = createTable(times, plain, { width: 80, brief: true });
  expect(table.draw([5, 200, 7_300, 900_000, -190])).toBe("WHEN\n5s\n3m\n2h\n10d\nin 3m\n");
  expect(createTable(times, plain).draw([5])).toMatch(/^WHEN\n\d{4}-\d\d-\d\dT[\d:]+Z\n$/);
});

it("writes enum values as words and numbers as numbers", () => {
  const connection = create(ConnectionSchema, {
    ref: { integration: "calendar", id: "ada" },
    state: Connection_State.REFRESH_FAILING,
    revision: 407n,
    createdAt: timestampFromMs(0),
  });
  expect(plainJson(ConnectionSchema, connection)).toEqual({
    ref: { integration: "calendar", id: "ada" },
    state: "refresh_failing",
    revision: 407,
    created_at: "1970-01-01T00:00:00Z",
  });
  const answer = create(GetCallerResponseSchema, { scopes: [Scope.CONNECTIONS_READ] });
  expect(plainJson(GetCallerResponseSchema, answer)).toEqual({ scopes: ["connections:read"] });
  // A revision of 2^63 would lose digits as a number.
  expect(plainJson(ConnectionSchema, create(ConnectionSchema, { revision: 1n << 63n }))).toEqual({
    revision: "9223372036854775808",
  });
  // Descriptions of providers are read back.
  const provider = create(ProviderSchema, {
    auth: { case: "oauth2", value: { refreshTokens: { use: RefreshTokenRules_Use.KEEPS } } },
  });
  expect(JSON.stringify(plainJson(ProviderSchema, provider))).toContain('"USE_KEEPS"');
});
