import type { JsonValue } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { readPrompt, readResource, readToolContent } from "../../../../src/core/mcp-endpoint/content.ts";
import { matchTemplate, mistakeInTemplate } from "../../../../src/core/mcp-endpoint/uri-template.ts";

it("reads content, and says what is wrong with it", () => {
  expect(readToolContent("hello")).toEqual({
    content: [{ type: "text", text: "hello" }],
    structuredContent: undefined,
    isError: false,
  });
  const image = { type: "image", data: "AAAA", mimeType: "image/png", secret: 1 };
  expect(readToolContent({ content: ["a", image], structuredContent: { n: 1 }, isError: true })).toEqual({
    content: [
      { type: "text", text: "a" },
      { type: "image", data: "AAAA", mimeType: "image/png" },
    ],
    structuredContent: { n: 1 },
    isError: true,
  });
  const refused: [JsonValue, string][] = [
    [{ type: "image", data: "%", mimeType: "image/png" }, "the output[0].data"],
    [{ type: "image", data: "AAAA" }, "the output[0].mimeType"],
    [{ content: [{ type: "video" }] }, "content[0].type"],
    [{ content: [{ type: "resource", resource: { uri: "a:b" } }] }, "content[0].resource.blob"],
    [{ content: "x", structuredContent: [] }, "structuredContent"],
    [7, "the output[0]"],
  ];
  for (const [given, wrong] of refused) expect(() => readToolContent(given)).toThrow(wrong);
});

it("reads prompts and resources", () => {
  expect(readPrompt("do it")).toEqual({ messages: [{ role: "user", content: { type: "text", text: "do it" } }] });
  expect(readPrompt({ description: "d", messages: [{ role: "assistant", content: "ok" }] })).toEqual({
    description: "d",
    messages: [{ role: "assistant", content: { type: "text", text: "ok" } }],
  });
  expect(() => readPrompt([])).toThrow("list of messages");
  expect(() => readPrompt([{ role: "system", content: "x" }])).toThrow("messages[0].role");
  const at = { uri: "a:1", mimeType: "" };
  expect(readResource("t", at)).toEqual([{ uri: "a:1", mimeType: "text/plain", text: "t" }]);
  expect(readResource({ n: 1 }, at)).toEqual([{ uri: "a:1", mimeType: "application/json", text: '{"n":1}' }]);
  expect(readResource([{ blob: "AAAA" }, { uri: "a:2", text: "" }], { ...at, mimeType: "image/png" })).toEqual([
    { uri: "a:1", mimeType: "image/png", blob: "AAAA" },
    { uri: "a:2", mimeType: "image/png", text: "" },
  ]);
});

it("matches URIs with templates", () => {
  expect(matchTemplate("files://{id}/data", "files://a%2Fb/data")).toEqual({ id: "a/b" });
  expect(matchTemplate("files://{id}/data", "files://a/b/data")).toBeUndefined();
  expect(matchTemplate("files://{id}/data", "files:///data")).toBeUndefined();
  expect(matchTemplate("files://{id}", "files://%")).toBeUndefined();
  expect(matchTemplate("x://{a}.{b}?q=(1)", "x://1.2?q=(1)")).toEqual({ a: "1", b: "2" });
  expect(matchTemplate("x://{a}-{b}-{c}.md", "x://--1-2-.md.md")).toEqual({ a: "-", b: "1", c: "2-.md" });
  expect(matchTemplate("x://{a}-{b}", "x://1-")).toBeUndefined();
  expect(matchTemplate("x://{a}-{b}", "x://1/2-3")).toBeUndefined();
  expect(matchTemplate("x://a", "x://a/b")).toBeUndefined();
  // Many ways to divide a URI that fits none.
  for (const length of [4_000, 1_000_000]) {
    expect(matchTemplate("x://{a}-{b}-{c}-{d}-{e}", `x://${"-".repeat(length)}/`)).toBeUndefined();
  }
  expect(mistakeInTemplate("files://{id}/data")).toBeUndefined();
  for (const wrong of ["files", "a://{", "a://{a}{b}", "a://{a}/{a}", "a://{a-b}", "latchkey://x", "a:b c"]) {
    expect([wrong, mistakeInTemplate(wrong)]).toEqual([wrong, expect.any(String)]);
  }
});
