import { expect, it } from "vitest";
import { AnswerMistake, readFormContent } from "../../../src/core/mcp-endpoint/input/form-answer.ts";
import { readFormSchema } from "../../../src/core/mcp-endpoint/input/form-schema.ts";
import { readQuestions } from "../../../src/core/mcp-endpoint/input/questions.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { Run_State, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { olderClient } from "./older-client.ts";
import { connectByKey, follow, integration, legacyCall, modernCall, served } from "./served.ts";

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

async function ready({ now = Date.now } = {}): Promise<Connecting> {
  const env = { LATCHKEY_STREAM_GRACE: "10ms" };
  const all = await served({ scripts: {}, others: { [key]: scripts }, sidecar: { env, now } });
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

it("asks a client of 2025-11-25 on the stream of its call, and takes the answers of its session alone", async () => {
  let later = 0;
  const all = await ready({ now: () => Date.now() + later });
  const { sidecar } = all;
  const { secret: other } = await sidecar.client(EnvironmentService).createKey({ environment: "dev" });
  const own = await sidecar.client(EnvironmentService).createKey({ environment: "dev" });
  const client = await olderClient(sidecar, { elicitation: {}, sampling: {} }, { key: own.secret });
  const call = (options = {}) =>
    client.send(
      { id: 7, method: "tools/call", params: { name: `${key}_two`, arguments: { connection: "ada", topic: "a" } } },
      options,
    );
  const asked = async () => {
    const stream = await call();
    const question = await stream.next();
    return { ...stream, question, answer: (answer: object) => client.reply(question.id, answer) };
  };

  const { question: one, ...stream } = await asked();
  expect(one).toMatchObject({ jsonrpc: "2.0", method: "elicitation/create", params: { message: "Word?" } });
  const first = { result: accept("elderberry") };
  // Neither another key, nor another session, nor an ID that is none of ours.
  const strange = await olderClient(sidecar, { elicitation: {} }, { key: own.secret });
  const refused = { status: 400, body: { error: { code: -32_600, message: expect.stringContaining("no question") } } };
  expect(await client.reply(one.id, first, { key: other })).toMatchObject(refused);
  expect(await strange.reply(one.id, first)).toMatchObject(refused);
  const unknown = await client.reply("eA", first);
  expect(unknown).toMatchObject(refused);
  expect(unknown.body).not.toHaveProperty("id");
  expect(await client.reply(one.id, first)).toEqual({ status: 202, body: undefined });
  // The first answer counts.
  expect((await client.reply(one.id, { result: accept("x") })).status).toBe(202);
  const two = await stream.next();
  expect(two.params.message).toBe("And after it?");
  expect(two.id).not.toBe(one.id);
  await client.reply(two.id, { result: accept("fig") });
  expect(await stream.next()).toMatchObject({ id: 7, result: { structuredContent: { lengths: [10, 3] } } });
  expect(await stream.next()).toBeUndefined();

  const declining = await asked();
  await declining.answer({ result: { action: "decline" } });
  expect((await declining.next()).result.structuredContent).toEqual({ action: "decline" });
  const failing = await asked();
  await failing.answer({ error: { code: -1, message: "elderberry" } });
  const end = async (of: typeof failing) => {
    for (;;) {
      const message = await of.next();
      if (message?.method === undefined) return message;
    }
  };
  expect(await end(failing)).toMatchObject({
    id: 7,
    error: { message: "the client has answered the question `first` with the error -1" },
  });
  const wrong = await asked();
  await wrong.answer({ result: accept("x".repeat(21)) });
  expect((await end(wrong)).error.message).toContain("`content.word` must have at most 20 characters");
  const large = await asked();
  expect(await large.answer({ result: accept("x".repeat(300_000)) })).toMatchObject({ status: 400 });
  expect((await end(large)).error.message).toBe("an answer must have at most 256 KiB");

  // Without a stream, or the capability, it is told why it cannot be asked.
  const plain = await call({ accept: "application/json" });
  expect((await plain.next()).error).toMatchObject({ data: { requiredCapabilities: { elicitation: {} } } });

  // A client that has left, or does not answer in time, gets no further run.
  const { runs: before } = await sidecar.client(SyncService).listRuns({ environment: "dev" });
  const left = await asked();
  left.leave();
  const late = await asked();
  later = 11 * 60_000;
  expect(await late.next()).toMatchObject({
    method: "notifications/cancelled",
    params: { requestId: late.question.id },
  });
  expect((await late.next()).error.message).toBe("the client has not answered within 10 minutes");
  expect((await late.answer(first)).status).toBe(202);
  expect((await left.answer(first)).status).toBe(202);
  const { runs } = await sidecar.client(SyncService).listRuns({ environment: "dev" });
  expect(runs.length).toBe(before.length + 2);
  const shown = runs.map(({ problem }) => `${problem?.code} ${problem?.message}`);
  for (const text of [...sidecar.logged, ...shown]) expect(text).not.toMatch(/elderberry|xxxxx/);

  // An ended key ends its calls, and a process that stops cuts those of others.
  const ending = await asked();
  await sidecar.client(EnvironmentService).revokeKey({ id: own.key?.id ?? "" });
  expect((await end(ending)).error.data.code).toBe("unknown_key");
  const open = await olderClient(sidecar, { elicitation: {} });
  const cut = await open.send({
    id: 1,
    method: "tools/call",
    params: { name: `${key}_two`, arguments: { connection: "ada", topic: "a" } },
  });
  expect((await cut.next()).method).toBe("elicitation/create");
  const message = cut.next().catch(() => "cut");
  await sidecar.stop();
  expect(await message).toBe("cut");
});

it("shows a client of 2025-11-25 a link in the middle of its call, and goes on with the answers", async () => {
  const all = await served({ scripts: { "actions/two.ts": scripts["actions/two.ts"] } });
  const client = await olderClient(all.sidecar, { elicitation: { form: {}, url: {} } });
  const given = { connection: "ada", topic: "a" };
  const call = () =>
    client.send({ id: 7, method: "tools/call", params: { name: `${integration}_two`, arguments: given } });
  // Before it has answered anything, it is told by the error of its version, and calls again.
  const { error } = await (await call()).next();
  expect(error.code).toBe(-32_042);
  await follow(all, error.data.elicitations[0].url);
  const stream = await call();
  const one = await stream.next();
  const gone = await all.sidecar.rest("DELETE", `/connections/ada?provider_config_key=${integration}`);
  expect(gone.status).toBe(200);
  await client.reply(one.id, { result: accept("elderberry") });
  const link = await stream.next();
  expect(link).toMatchObject({
    method: "elicitation/create",
    params: { mode: "url", url: expect.stringContaining("session_token="), elicitationId: expect.any(String) },
  });
  await follow(all, link.params.url);
  await client.reply(link.id, { result: { action: "accept" } });
  const two = await stream.next();
  expect(two.params.message).toBe("And after it?");
  await client.reply(two.id, { result: accept("fig") });
  expect(await stream.next()).toMatchObject({ id: 7, result: { structuredContent: { lengths: [10, 3] } } });
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
