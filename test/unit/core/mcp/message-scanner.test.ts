import { describe, expect, it } from "vitest";
import { checkMessageHeaders, messageHeaders } from "../../../../src/core/mcp/message-headers.ts";
import { MessageScanner, type RpcMessage } from "../../../../src/core/mcp/message-scanner.ts";

/** Reads a message in pieces of this size, so that no state may depend on where a piece ends. */
function scanned(text: string | Buffer, size = 1_000): RpcMessage {
  const scanner = new MessageScanner();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) scanner.push(bytes.subarray(at, at + size));
  if (!scanner.hasEnded) throw new Error("the message is not complete");
  return scanner.message;
}

const call = {
  jsonrpc: "2.0",
  id: 7,
  method: "tools/call",
  params: {
    arguments: { name: "not this", method: "nor this", deep: [[{ name: "}]" }], '\\"{', 1.5e-3, null, true] },
    name: "get_weather",
    _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28", name: "nor this" },
  },
};
const facts = { method: "tools/call", name: "get_weather", uri: undefined, version: "2026-07-28", id: "7" };

describe("a JSON-RPC message", () => {
  it.each([1, 2, 3, 7, 1_000])("is read in pieces of %i bytes", (size) => {
    expect(scanned(JSON.stringify(call), size)).toEqual(facts);
    expect(scanned(JSON.stringify(call, null, 2), size)).toEqual(facts);
  });

  it("is read with escapes in keys and values, and with names that are no ASCII", () => {
    const text = String.raw`{"m\u0065thod":"tools\/call","params":{"n\u0061me":"g\u00fcnther 世界"},"id":"a\"b"}`;
    expect(scanned(text, 1)).toMatchObject({ method: "tools/call", name: "günther 世界", id: String.raw`"a\"b"` });
  });

  it.each([
    ["a list", "[{}]"],
    ["a duplicate method", '{"method":"a","method":"b"}'],
    ["a duplicate method that is escaped", String.raw`{"method":"a","m\u0065thod":"b"}`],
    ["a method in another case", '{"method":"a","Method":"b"}'],
    ["a key that folds to one of the protocol", '{"method":"a","param\u017f":{}}'],
    ["duplicate parameters", '{"params":{"name":"a"},"params":{"name":"b"}}'],
    ["a duplicate tool", '{"params":{"name":"a","name":"b"}}'],
    ["a tool in another case", '{"params":{"name":"a","NAME":"b"}}'],
    ["duplicate arguments", '{"params":{"arguments":{},"arguments":{"a":1}}}'],
    ["a comment", '{"method":"a" /* "method":"b" */}'],
    ["single quotes", "{'method':'a'}"],
    ["a trailing comma", '{"method":"a",}'],
    ["brackets that do not match", '{"a":[}]}'],
    ["something after it", '{"method":"a"}{"method":"b"}'],
    ["a byte order mark", "\ufeff{}"],
    ["a raw line break in a text", '{"method":"a\nb"}'],
    ["bytes that are no UTF-8", Buffer.from([0x7b, 0x22, 0x6d, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ["too many levels", `{"a":${"[".repeat(300)}`],
    ["a method that is too long", `{"method":"${"a".repeat(2_000)}"}`],
  ])("is refused with %s", (_, text) => {
    expect(() => scanned(text, 1)).toThrow(/message|the body/);
    expect(() => scanned(text)).toThrow(/message|the body/);
  });

  it("is not complete before its last brace", () => {
    for (const text of ["", "{", '{"method":"a"', '{"params":{}']) expect(() => scanned(text)).toThrow("not complete");
  });
});

describe("the headers of a message", () => {
  const headers = (fields: Readonly<Record<string, string>>) => messageHeaders(Object.entries(fields).flat());
  const modern = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "get_weather" };

  it("agree with it", () => {
    checkMessageHeaders(headers(modern), facts);
    const encoded = `=?base64?${Buffer.from("世界").toString("base64")}?=`;
    checkMessageHeaders(headers({ ...modern, "Mcp-Name": encoded }), { ...facts, name: "世界" });
    checkMessageHeaders(headers({ "MCP-Protocol-Version": "2025-11-25" }), { ...facts, version: undefined });
    checkMessageHeaders(headers({}), { ...facts, version: undefined });
    const read = { ...facts, method: "resources/read", name: undefined, uri: "file:///a" };
    checkMessageHeaders(headers({ ...modern, "Mcp-Method": "resources/read", "Mcp-Name": "file:///a" }), read);
  });

  it.each([
    ["name another method", { ...modern, "Mcp-Method": "tools/list" }],
    ["name another tool", { ...modern, "Mcp-Name": "delete_all" }],
    ["name the tool in another case", { ...modern, "Mcp-Name": "Get_weather" }],
    ["name another version", { ...modern, "MCP-Protocol-Version": "2027-01-01" }],
    ["lack the version", { "Mcp-Method": "tools/call", "Mcp-Name": "get_weather" }],
    ["lack the method", { "MCP-Protocol-Version": "2026-07-28", "Mcp-Name": "get_weather" }],
    ["lack the tool", { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call" }],
    ["hold Base64 that is not valid", { ...modern, "Mcp-Name": "=?base64?%%?=" }],
    ["hold bytes that are no ASCII", { ...modern, "Mcp-Name": "get_weather\u00e9" }],
  ])("are refused if they %s", (_, fields) => {
    expect(() => checkMessageHeaders(headers(fields), facts)).toThrow(/the header/);
  });

  it("are refused if they are sent twice, or with an older version and other values", () => {
    expect(() => messageHeaders(["Mcp-Method", "a", "mcp-method", "a"])).toThrow("once");
    const older = { ...facts, version: undefined };
    expect(() => checkMessageHeaders(headers({ "Mcp-Method": "tools/list" }), older)).toThrow("mcp-method");
    const list = { ...older, method: "tools/list", name: undefined };
    expect(() => checkMessageHeaders(headers({ "Mcp-Name": "get_weather" }), list)).toThrow("mcp-name");
  });
});
