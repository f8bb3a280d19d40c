import { expect, it } from "vitest";
import { checkMessageHeaders, HeaderMismatch, messageHeaders } from "../../../../src/core/mcp/message-headers.ts";
import { MessageMistake, MessageScanner, type RpcMessage } from "../../../../src/core/mcp/message-scanner.ts";
import { createRandom, type Random } from "../../../support/policies/random.ts";

/** `LATCHKEY_FUZZ_COUNT=1000000` is the long form. */
const rounds = Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 20_000);

/** How a server may read JSON: the first or the last of equal keys, and keys without regard to their case. */
interface Reading {
  readonly takes: "first" | "last";
  readonly foldsCase: boolean;
}
const readings: readonly Reading[] = [
  { takes: "last", foldsCase: false },
  { takes: "first", foldsCase: false },
  { takes: "last", foldsCase: true },
  { takes: "first", foldsCase: true },
];

type Entry = readonly [key: string, value: Value];
type Value = string | number | boolean | null | readonly Value[] | { readonly entries: readonly Entry[] };

/** A message as bytes and as a tree that keeps duplicates. */
interface Written {
  readonly text: string;
  readonly tree: Value;
}

const isObject = (value: Value | undefined): value is { readonly entries: readonly Entry[] } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const fold = (key: string) => key.toLowerCase().replaceAll("\u017f", "s").replaceAll("\u212a", "k");

function read(value: Value | undefined, key: string, { takes, foldsCase }: Reading): Value | undefined {
  if (!isObject(value)) return undefined;
  const found = value.entries.filter(([name]) => (foldsCase ? fold(name) === fold(key) : name === key));
  return (takes === "first" ? found[0] : found.at(-1))?.[1];
}

/** Writes a text in one of the forms that JSON has for it. */
function quoted(text: string, random: Random): string {
  const asEscape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const written = text.split("").map((unit) => {
    if (random.below(8) === 0) return random.of([asEscape(unit), asEscape(unit).toUpperCase().replace("\\U", "\\u")]);
    return JSON.stringify(unit).slice(1, -1);
  });
  return `"${written.join("")}"`;
}

const blank = (random: Random) => random.of(["", "", "", " ", "\n", "\t\r\n "]);

function written(value: Value, random: Random): string {
  if (typeof value === "string") return quoted(value, random);
  if (Array.isArray(value)) return `[${value.map((one) => written(one, random)).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = value.entries.map(
    ([key, one]) => `${blank(random)}${quoted(key, random)}${blank(random)}:${written(one, random)}`,
  );
  return `{${members.join(",")}${blank(random)}}`;
}

const tools = ["search", "delete", "Search", "search ", "\u017fearch", "", "search\u0000"];
const methods = ["tools/call", "tools/call", "tools/call", "tools/list", "Tools/call", "prompts/get"];

const variant = (key: string, random: Random) =>
  random.below(12) === 0
    ? random.of([key.toUpperCase(), `${key} `, key.replace("s", "\u017f"), `\u0000${key}`, "__proto__"])
    : key;

function randomParams(random: Random): Value {
  const entries: Entry[] = [];
  for (let i = random.of([0, 1, 1, 1, 2]); i > 0; i -= 1) {
    entries.push([variant("name", random), random.of<Value>([...tools, 1, null, ["search"], { entries: [] }])]);
  }
  if (random.below(2) === 0) {
    entries.push([
      "arguments",
      {
        entries: [
          ["name", random.of(tools)],
          ["method", "tools/call"],
        ],
      },
    ]);
  }
  if (random.below(4) === 0) {
    const version = random.of(["2026-07-28", "2025-11-25"]);
    entries.push([
      "_meta",
      {
        entries: [
          ["io.modelcontextprotocol/protocolVersion", version],
          ["name", "delete"],
        ],
      },
    ]);
  }
  return random.below(20) === 0
    ? random.of<Value>(["delete", null, [{ entries }]])
    : { entries: shuffled(entries, random) };
}

const shuffled = <T>(list: readonly T[], random: Random): T[] =>
  list
    .map((one) => ({ one, at: random.below(1_000) }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);

function randomMessage(random: Random): Written {
  const entries: Entry[] = [
    ["jsonrpc", "2.0"],
    ["id", random.of<Value>([1, "a", null])],
  ];
  for (let i = random.of([1, 1, 1, 2]); i > 0; i -= 1) entries.push([variant("method", random), random.of(methods)]);
  for (let i = random.of([0, 1, 1, 1, 2]); i > 0; i -= 1)
    entries.push([variant("params", random), randomParams(random)]);
  const tree: Value = { entries: shuffled(entries, random) };
  return { tree, text: written(tree, random) };
}

function randomHeaders(random: Random): string[] {
  const tool = random.of(tools.filter((one) => /^[\x20-\x7e]*$/.test(one)));
  return [
    ...random.of([[], ["Mcp-Protocol-Version", "2026-07-28"]]),
    ...random.of([[], ["Mcp-Method", random.of(methods)], ["mcp-method", "tools/call", "Mcp-Method", "tools/list"]]),
    ...random.of([
      [],
      ["Mcp-Name", tool],
      ["MCP-NAME", `=?base64?${Buffer.from(random.of(tools)).toString("base64")}?=`],
      ["mcp-name", tool, "Mcp-Name", "search"],
    ]),
  ];
}

/** Returns the message that Latchkey would let through; undefined: it is refused. */
function admitted(text: string, headers: readonly string[], random: Random): RpcMessage | undefined {
  const bytes = Buffer.from(text);
  const scanner = new MessageScanner();
  try {
    for (let at = 0; at < bytes.length; ) {
      const next = at + 1 + random.below(40);
      scanner.push(bytes.subarray(at, next));
      at = next;
    }
    if (!scanner.hasEnded) return undefined;
    checkMessageHeaders(messageHeaders(headers), scanner.message);
    return scanner.message;
  } catch (error) {
    if (error instanceof MessageMistake || error instanceof HeaderMismatch) return undefined;
    throw error;
  }
}

it("lets no message through that a server reads in another way than its headers and its rules", () => {
  const random = createRandom(20260728);
  let through = 0;
  for (let round = 0; round < rounds; round += 1) {
    const { text, tree } = randomMessage(random);
    const headers = randomHeaders(random);
    const message = admitted(text, headers, random);
    if (message === undefined) continue;
    through += 1;
    for (const reading of readings) {
      const method = read(tree, "method", reading);
      const name = read(read(tree, "params", reading), "name", reading);
      const context = { text, headers, reading };
      expect({ ...context, method: message.method }).toEqual({ ...context, method });
      if (method !== "tools/call") continue;
      // What is no text is no name of a tool; limits and policies refuse such a call.
      const tool = typeof name === "string" ? name : undefined;
      expect({ ...context, tool: message.name }).toEqual({ ...context, tool });
      const sent = messageHeaders(headers);
      if (sent.name !== undefined) expect({ ...context, tool: sent.name }).toEqual({ ...context, tool });
      if (sent.method !== undefined) expect(sent.method).toBe(method);
    }
  }
  // Neither everything nor nothing is refused.
  expect(through).toBeGreaterThan(rounds / 50);
  expect(through).toBeLessThan(rounds);
});
