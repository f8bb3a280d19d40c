import { expect, it } from "vitest";
import { AnswerMistake, readFormContent } from "../../../src/core/mcp-endpoint/input/form-answer.ts";
import { readFormSchema } from "../../../src/core/mcp-endpoint/input/form-schema.ts";
import { readQuestions } from "../../../src/core/mcp-endpoint/input/questions.ts";
import { Run_State, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { connectByKey, legacyCall, modernCall, served } from "./served.ts";

const key = "sandbox-api-key";
const action = (body: string, more = "") => `
  import { createAction } from "latchkey/scripts";
  import * as z from "zod";
  export default createAction({ description: "Asks.", ${more}
    exec: async (nango: any, input: any) => { ${body} } });`;
const form = (message: string, fields = '{ word: { type: "string", maxLength: 20 } }') =>
  `{ kind: "form", message: ${message}, schema: { type: "object", properties: ${fields}, required: ["word"] } }`;

const scripts = {
  "actions/two.ts": action(
    `const { first } = await nango.askClient({ first: ${form('"Word?"')} });
    if (first.action !== "accept") return { action: first.action };
    try { await nango.askClient({ second: ${form('"And after it?"')} }); } catch { return "caught"; }
    const { second } = await nango.askClient({ second: ${form('"And after it?"')} });
    return { lengths: [first.content.word.length, second.content.word.length] };`,
    "input: z.object({ topic: z.string() }),",
  ),
  "actions/same_name.ts": action(
    `const before = await nango.askClient({ word: ${form('"Delete one?"')} });
    const after = await nango.askClient({ word: ${form('"Delete all?"')} });
    return [before.word.content.word, after.word.content.word];`,
  ),
  "actions/nested_form.ts": action(`await nango.askClient({ it: ${form('"?"', '{ word: { type: "object" } }')} });`),
  "actions/endless.ts": action(`for (let i = 0; ; i += 1) await nango.askClient({ it: ${form('"Number " + i')} });`),
};

async function ready(): Promise<Connecting> {
  const all = await served({ scripts: {}, others: { [key]: scripts } });
  await connectByKey(all, key, ["ada", "bob"]);
  return all;
}

const accept = (word: unknown) => ({ action: "accept", content: { word } });
const capabilities = { elicitation: {} };

it("asks a client by results, binds its answers to the call, and writes them nowhere", async () => {
  const all = await ready();
  const call = async (name: string, given: object, more: object = {}, options: object = {}) =>
    (
      await modernCall(
        all,
        "tools/call",
        { name: `${key}_${name}`, arguments: { connection: "ada", ...given }, ...more },
        { capabilities, ...options },
      )
    ).body;

  const { result: one } = await call("two", { topic: "a" });
  expect(one).toMatchObject({
    resultType: "input_required",
    inputRequests: { first: { method: "elicitation/create", params: { mode: "form", message: "Word?" } } },
  });
  const first = { inputResponses: { first: accept("elderberry") }, requestState: one.requestState };
  const { result: two } = await call("two", { topic: "a" }, first);
  expect(Object.keys(two.inputRequests)).toEqual(["second"]);
  expect(two.requestState).not.toContain("elderberry");
  const second = { inputResponses: { second: accept("fig") }, requestState: two.requestState };
  const { result: done } = await call("two", { topic: "a" }, second);
  expect(done).toMatchObject({ resultType: "complete", structuredContent: { lengths: [10, 3] } });

  // A state is of one call: with the same arguments and connection, by the same caller, unchanged.
  const refused = { error: { code: -32_602, message: expect.stringContaining("`requestState` is too old") } };
  expect(await call("two", { topic: "b" }, second)).toMatchObject(refused);
  expect(await call("two", { topic: "a", connection: "bob" }, second)).toMatchObject(refused);
  expect(await call("two", { topic: "a" }, second, { headers: { "connection-id": "bob" } })).toMatchObject(refused);
  const changed = `${two.requestState.slice(0, -4)}AAAA`;
  expect(await call("two", { topic: "a" }, { ...second, requestState: changed })).toMatchObject(refused);

  // An answer that does not fit is refused without being repeated; one to nothing asked is ignored.
  const wrong = { inputResponses: { second: accept("x".repeat(21)) }, requestState: two.requestState };
  expect(await call("two", { topic: "a" }, wrong)).toMatchObject({
    error: { message: "the answer `second` is not valid: `content.word` must have at most 20 characters" },
  });
  const other = { inputResponses: { third: accept("grape") }, requestState: two.requestState };
  expect((await call("two", { topic: "a" }, other)).result.inputRequests).toHaveProperty("second");
  const declined = { inputResponses: { first: { action: "decline" } }, requestState: one.requestState };
  expect((await call("two", { topic: "a" }, declined)).result.structuredContent).toEqual({ action: "decline" });

  // The answer to one question is none to another of the same name.
  const { result: asked } = await call("same_name", {}, { inputResponses: { word: accept("yes") } });
  expect(asked.inputRequests.word.params.message).toBe("Delete all?");

  const { runs } = await all.sidecar.client(SyncService).listRuns({ environment: "dev" });
  const asking = runs.filter(({ problem }) => problem?.code === "input_required");
  expect(asking.map(({ state }) => state)).toContain(Run_State.CANCELLED);
  const shown = runs.map(({ problem }) => `${problem?.code} ${problem?.message}`);
  for (const text of [...all.sidecar.logged, ...shown]) expect(text).not.toMatch(/elderberry|xxxxx/);
  expect(await all.sidecar.metric('latchkey_mcp_calls_total{kind="action",outcome="input_needed"}')).toBe(4);
});

it("refuses clients that cannot answer, forms that no client shows, and endless questions", async () => {
  const all = await ready();
  const given = { name: `${key}_two`, arguments: { connection: "ada", topic: "a" } };
  const unable = await modernCall(all, "tools/call", given, { capabilities: { elicitation: { url: {} } } });
  expect([unable.status, unable.body.error]).toMatchObject([
    400,
    { code: -32_021, data: { requiredCapabilities: { elicitation: { form: {} } } } },
  ]);
  const older = (await legacyCall(all, "tools/call", given)).body;
  expect(older.error).toMatchObject({ code: -32_600, data: { requiredCapabilities: { elicitation: {} } } });
  const direct = await all.sidecar.rest("POST", "/action/trigger", {
    body: { action_name: "two", input: { topic: "a" } },
    headers: { "connection-id": "ada", "provider-config-key": key },
  });
  expect(JSON.stringify(direct.body)).toContain("no MCP client waits for this run");

  const nested = { name: `${key}_nested_form`, arguments: { connection: "ada" } };
  const { result } = (await modernCall(all, "tools/call", nested, { capabilities })).body;
  expect(result.content[0].text).toContain(
    "the question `it` is not valid: `schema.properties.word.type` must be string, number, integer, boolean, or array",
  );

  const endless = { name: `${key}_endless`, arguments: { connection: "ada" } };
  let more: object = {};
  for (let i = 0; i < 10; i += 1) {
    const { result: asked } = (await modernCall(all, "tools/call", { ...endless, ...more }, { capabilities })).body;
    more = { requestState: asked.requestState, inputResponses: { it: accept("on") } };
  }
  const last = (await modernCall(all, "tools/call", { ...endless, ...more }, { capabilities })).body;
  expect(last.error.message).toContain("has asked its client 10 times");
});

const fields = (field: object) => ({ type: "object", properties: { f: field } }) as never;

it.each([
  [{ type: "string", format: "email", minLength: 3, default: "a@b" }, "ada@example.com", "ada"],
  [{ type: "string", format: "date" }, "2026-11-26", "2026-02-30"],
  [{ type: "string", format: "uri" }, "https://example.com", "example"],
  [{ type: "string", enum: ["a", "b"], enumNames: ["A", "B"] }, "a", "c"],
  [{ type: "string", oneOf: [{ const: "a", title: "A" }], default: "a" }, "a", "A"],
  [{ type: "integer", minimum: 1, maximum: 3, title: "N" }, 3, 1.5],
  [{ type: "number", maximum: 3 }, 2.5, 4],
  [{ type: "boolean", default: true }, false, "false"],
  [{ type: "array", items: { type: "string", enum: ["a", "b"] }, minItems: 1 }, ["b"], []],
  [{ type: "array", items: { anyOf: [{ const: "a", title: "A" }] } }, ["a"], ["b"]],
])("takes the field %j and checks what is filled in", (field, right, wrong) => {
  const schema = readFormSchema(fields(field));
  expect(readFormContent({ f: right as never, other: 1 }, schema)).toEqual({ f: right });
  expect(() => readFormContent({ f: wrong as never }, schema)).toThrow(AnswerMistake);
});

it.each([
  [{ type: "string", pattern: "a" }, "`schema.properties.f.pattern` is not part of a form"],
  [{ type: "string", format: "ipv4" }, "`schema.properties.f.format` must be one of"],
  [{ type: "string", enum: [] }, "`schema.properties.f.enum` must have 1 to 500 choices"],
  [{ type: "string", enum: ["a"], default: "b" }, "`schema.properties.f.default` must be a choice"],
  [{ type: "array", items: { type: "string" } }, "`schema.properties.f.items` must have `enum` or `anyOf`"],
  [{ type: "object", properties: {} }, "forms are flat"],
  [{ type: "integer", minimum: "1" }, "`schema.properties.f.minimum` must be a number"],
])("refuses the field %j", (field, message) => {
  expect(() => readFormSchema(fields(field))).toThrow(message);
});

it("refuses questions without a name of their own, a known kind, or a bound", () => {
  const roots = { kind: "roots" };
  expect(() => readQuestions({ connect: roots })).toThrow("and not connect or approval");
  expect(() => readQuestions({})).toThrow("1 to 10 names");
  expect(() => readQuestions({ a: { kind: "url" } })).toThrow("`kind` must be form, sampling or roots");
  expect(() => readQuestions({ a: { kind: "sampling", messages: "Hi" } })).toThrow("`maxTokens`");
  expect(() => readQuestions({ a: { kind: "sampling", messages: "x".repeat(70_000), maxTokens: 1 } })).toThrow(
    "64 KiB",
  );
});
