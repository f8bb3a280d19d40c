import { expect, it } from "vitest";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { patient } from "../../support/approvals/holding.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import {
  callTool,
  connectByKey,
  documents,
  follow,
  integration,
  legacyCall,
  modern,
  modernCall,
  served,
  urlElicitation,
} from "./served.ts";

const action = (mcp: object, body: string, input = "") => `
  import { createAction } from "latchkey/scripts";
  import * as z from "zod";
  export default createAction({ description: "A script.", mcp: ${JSON.stringify(mcp)}, ${input}
    exec: async (nango: any, input: any) => { ${body} } });`;

const key = "sandbox-api-key";
const content = { kind: "tool", answers: "content" };
const scripts = {
  "actions/chart.ts": action(
    content,
    'return [{ type: "text", text: "a chart" }, { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" }];',
  ),
  "actions/wrong.ts": action(content, 'return { content: [{ type: "image" }] };'),
  "actions/review.ts": action(
    { kind: "prompt" },
    'return "Review in " + input.tone + " of " + nango.connectionId;',
    'input: z.object({ tone: z.enum(["plain", "polite"]).describe("How"), topic: z.string().optional() }),',
  ),
  "actions/readme.ts": action({ kind: "resource", uri: "docs://readme", mimeType: "text/markdown" }, 'return "# Hi";'),
  "actions/page.ts": action(
    { kind: "resource", uri: "docs://pages/{id}" },
    "return { id: input.id };",
    "input: z.object({ id: z.string() }),",
  ),
  "actions/slow.ts": action(
    { kind: "tool" },
    `// The credentials of the connection are known once a request used them.
    await nango.get({ endpoint: "/drive/v3/files" }).catch(() => {});
    for (const progress of [1, 2, 2, 3]) await nango.progress({ progress, total: 3, message: "at " + input.secret });
    if (input.fails) throw new nango.ActionError({ message: "it failed" });
    return true;`,
    "input: z.object({ secret: z.string(), fails: z.boolean() }),",
  ),
  "actions/forever.ts": action(
    { kind: "tool" },
    "await nango.progress({ progress: 1 }); await new Promise((resolve) => setTimeout(resolve, 100_000));",
  ),
  "actions/late.ts": action(
    { kind: "tool" },
    `await nango.get({ endpoint: "/drive/v3/files" }).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 500));
    await nango.progress({ progress: 1 }); await new Promise((resolve) => setTimeout(resolve, 100_000));`,
  ),
  "actions/silent.ts": action(
    { kind: "tool" },
    `await nango.get({ endpoint: "/drive/v3/files" }).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 100_000));`,
  ),
  "actions/talk.ts": action(
    { kind: "tool" },
    `await nango.get({ endpoint: "/drive/v3/files" }).catch(() => {});
    for (const level of ["debug", "info", "warn", "error"]) await nango.log("with " + input.secret, { level });
    return true;`,
    "input: z.object({ secret: z.string() }),",
  ),
  "actions/confide.ts": action(
    { kind: "tool" },
    `const [{ value }] = await nango.getEnvironmentVariables();
    await nango.log("with " + value);
    await nango.progress({ progress: 1, message: "at " + value });
    const schema = { type: "object", properties: {} };
    await nango.askClient({ word: { kind: "form", message: "Of " + value, schema } });`,
  ),
  "actions/broken.ts": action({ kind: "resource", uri: "no uri" }, "return 1;"),
};

/** Looks like words: only code that knows it can remove it. */
const variable = "correct horse battery staple";

async function ready(): Promise<Connecting> {
  const all = await served({
    scripts: { "syncs/documents.ts": documents },
    others: { [key]: scripts },
    variables: { MAILER: variable },
  });
  await connectByKey(all, key, ["ada", "bob"]);
  return all;
}

const session = async (all: Connecting, body: object): Promise<string> =>
  (await all.sidecar.rest("POST", "/access-sessions", { body })).body.data.token;

it("answers with content, prompts and resources of scripts, for their connection alone", async () => {
  const all = await ready();
  const scopes = ["syncs", "connections:read", "connections:write"];
  const ada = await session(all, { scopes, limits: { connections: [{ integration: key, id: "ada" }] } });
  const other = await session(all, { scopes, limits: { connections: [{ integration, id: "ada" }] } });
  const ask = async (method: string, params: Record<string, unknown> = {}, of = ada) =>
    (await modernCall(all, method, params, { key: of, headers: uriHeader(params) })).body;

  const chart = await callTool(all, "sandbox-api-key_chart", {}, { key: ada });
  expect(chart.result.content).toEqual([
    { type: "text", text: "a chart" },
    { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
  ]);
  const wrong = await callTool(all, "sandbox-api-key_wrong", {}, { key: ada });
  expect(wrong.result).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining("content[0].data") }],
  });
  // Prompts and resources are no tools.
  const { tools } = (await ask("tools/list")).result;
  expect(tools.map(({ name }: { name: string }) => name)).toEqual([
    "list_connections",
    "connect_account",
    "sandbox-api-key_chart",
    "sandbox-api-key_confide",
    "sandbox-api-key_forever",
    "sandbox-api-key_late",
    "sandbox-api-key_silent",
    "sandbox-api-key_slow",
    "sandbox-api-key_talk",
    "sandbox-api-key_wrong",
  ]);

  const listed = await ask("prompts/list");
  expect(listed.result).toMatchObject({ ttlMs: 60_000, cacheScope: "private" });
  expect(listed.result.prompts).toEqual([
    {
      name: "sandbox-api-key_review",
      title: "review (sandbox-api-key)",
      description: "A script.",
      arguments: [
        { name: "tone", description: "How", required: true },
        { name: "topic", required: false },
      ],
    },
  ]);
  const prompt = { name: "sandbox-api-key_review", arguments: { tone: "plain" } };
  expect((await ask("prompts/get", prompt)).result.messages).toEqual([
    { role: "user", content: { type: "text", text: "Review in plain of ada" } },
  ]);
  expect((await ask("prompts/get", { ...prompt, arguments: {} })).error).toMatchObject({ code: -32_602 });
  expect((await ask("prompts/get", { ...prompt, arguments: { tone: "rude" } })).error).toMatchObject({
    code: -32_602,
    data: { code: "invalid_body" },
  });
  const tone = { ref: { type: "ref/prompt", name: prompt.name }, argument: { name: "tone", value: "pl" } };
  expect((await ask("completion/complete", tone)).result.completion).toEqual({
    values: ["plain"],
    total: 1,
    hasMore: false,
  });

  expect((await ask("resources/list")).result.resources).toEqual([
    {
      name: "sandbox-api-key_readme",
      title: "readme (sandbox-api-key)",
      description: "A script.",
      mimeType: "text/markdown",
      uri: "docs://readme",
    },
  ]);
  expect((await ask("resources/templates/list")).result.resourceTemplates).toMatchObject([
    { uriTemplate: "docs://pages/{id}" },
  ]);
  expect((await ask("resources/read", { uri: "docs://readme" })).result).toMatchObject({
    contents: [{ uri: "docs://readme", mimeType: "text/markdown", text: "# Hi" }],
    ttlMs: 0,
  });
  const page = await ask("resources/read", { uri: "docs://pages/a%20b" });
  expect(page.result.contents[0]).toMatchObject({ mimeType: "application/json", text: '{"id":"a b"}' });
  expect((await ask("resources/read", { uri: "docs://none" })).error).toMatchObject({
    code: -32_602,
    data: { uri: "docs://none" },
  });
  const legacy = await legacyCall(all, "resources/read", { uri: "docs://none" }, { key: ada });
  expect(legacy.body.error.code).toBe(-32_002);

  // Two sessions never see each other's.
  expect((await ask("prompts/list", {}, other)).result.prompts).toEqual([]);
  expect((await ask("prompts/get", prompt, other)).error.message).toContain("unknown prompt");
  expect((await ask("resources/read", { uri: "docs://readme" }, other)).error.code).toBe(-32_602);
  expect((await ask("completion/complete", tone, other)).error.code).toBe(-32_602);
  // A key has a choice: the connection is an argument, and is completed.
  const ofKey = { ...prompt, arguments: { tone: "polite", connection: "bob" } };
  expect((await modernCall(all, "prompts/get", ofKey)).body.result.messages[0].content.text).toContain("of bob");
  const named = { ref: tone.ref, argument: { name: "connection", value: "b" } };
  expect((await modernCall(all, "completion/complete", named)).body.result.completion.values).toEqual(["bob"]);
  const broken = all.sidecar.logged.find((line) => line.includes("mcp.uri"));
  expect(broken).toContain("must be a URI");

  // Policies judge them by their method and the connection.
  const put = (id: string, condition: string) =>
    all.sidecar
      .client(PolicyService)
      .createPolicy({ policy: { id, environment: "dev", effect: PolicyEffect.DENY, condition } });
  await put("no-prompts", 'mcp.method == "prompts/get" && connection.id == "ada"');
  await expect.poll(async () => (await ask("prompts/get", prompt)).error?.data?.code, patient).toBe("denied_by_policy");
  expect((await modernCall(all, "prompts/get", ofKey)).body.result.messages).toHaveLength(1);
  // The name of a tool is that of its resource.
  await put("no-readme", 'mcp.tool == "sandbox-api-key_readme"');
  await expect
    .poll(async () => (await ask("resources/read", { uri: "docs://readme" })).error?.code, patient)
    .toBe(-32_602);
  await put("no-reading", 'mcp.method == "resources/read"');
  await expect.poll(async () => (await ask("resources/list")).result.resources, patient).toEqual([]);
});

it("tells a client that asks how far a call is, before the answer, without secrets", async () => {
  const all = await ready();
  const call = (arguments_: object, headers: Record<string, string>) =>
    fetch(`${all.sidecar.data}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${secretKey}`,
        "content-type": "application/json",
        "mcp-protocol-version": "2025-11-25",
        "connection-id": "ada",
        ...headers,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 7,
        method: "tools/call",
        params: { name: "sandbox-api-key_slow", arguments: arguments_, _meta: { progressToken: "p" } },
      }),
    });
  const events = { accept: "application/json, text/event-stream" };
  const streamed = await call({ secret: "sandbox-api-key", fails: false }, events);
  expect(streamed.headers.get("content-type")).toBe("text/event-stream");
  const messages = eventsIn(await streamed.text());
  const params = { progressToken: "p", total: 3, message: "at [redacted]" };
  expect(messages).toEqual([
    ...[1, 2, 3].map((progress) => ({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { ...params, progress },
    })),
    { jsonrpc: "2.0", id: 7, result: { content: [{ type: "text", text: "true" }] } },
  ]);
  const failed = await (await call({ secret: "x", fails: true }, events)).text();
  expect(failed).toContain('"message":"it failed"');
  const long = await callTool(all, "list_connections", {}, { meta: { progressToken: "x".repeat(257) } });
  expect(long.error).toMatchObject({ code: -32_602, message: expect.stringContaining("at most 256 characters") });
  const plain = await call({ secret: "x", fails: false }, { accept: "application/json" });
  expect(((await plain.json()) as { result: unknown }).result).toEqual({ content: [{ type: "text", text: "true" }] });
});

const eventsIn = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => JSON.parse(event.replace("event: message\ndata: ", "")));

it("sends what an action logs to clients that ask for it, from the level that they want", async () => {
  const all = await ready();
  const send = async (method: string, params: object, headers: Record<string, string> = {}, key = secretKey) => {
    const answer = await fetch(`${all.sidecar.data}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
        "connection-id": "ada",
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    const text = await answer.text();
    const isStream = answer.headers.get("content-type") === "text/event-stream";
    return { messages: isStream ? eventsIn(text) : [JSON.parse(text)], headers: answer.headers };
  };
  const tool = { name: "sandbox-api-key_talk", arguments: { secret: "sandbox-api-key" } };
  const newer = { "mcp-protocol-version": modern, "mcp-method": "tools/call", "mcp-name": tool.name };
  const modernly = async (level?: string, key = secretKey) => {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": modern,
      "io.modelcontextprotocol/clientCapabilities": {},
      ...(level !== undefined && { "io.modelcontextprotocol/logLevel": level }),
    };
    return (await send("tools/call", { ...tool, _meta }, newer, key)).messages;
  };
  const logged = (...levels: string[]) =>
    levels.map((level) => ({
      jsonrpc: "2.0",
      method: "notifications/message",
      params: { level, logger: tool.name, data: "with [redacted]" },
    }));
  const done = expect.objectContaining({ id: 1, result: expect.objectContaining({ content: expect.any(Array) }) });
  expect(await modernly("debug")).toEqual([...logged("debug", "info", "warning", "error"), done]);
  expect(await modernly("notice")).toEqual([...logged("warning", "error"), done]);
  expect(await modernly()).toEqual([done]);
  expect((await modernly("loud"))[0].error).toMatchObject({ code: -32_602, message: expect.stringContaining("debug") });
  // Logs are read with a scope of their own.
  const limits = { connections: [{ integration: key, id: "ada" }] };
  expect(await modernly("debug", await session(all, { scopes: ["syncs"], limits }))).toEqual([done]);

  const begun = await send("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {} });
  expect(begun.messages[0].result.capabilities).toMatchObject({ logging: {} });
  const id = { "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
  expect((await send("tools/call", tool, id)).messages).toEqual([done]);
  expect((await send("logging/setLevel", { level: "info" }, id)).messages).toEqual([
    { jsonrpc: "2.0", id: 1, result: {} },
  ]);
  expect((await send("tools/call", tool, id)).messages).toEqual([...logged("info", "warning", "error"), done]);
  await send("logging/setLevel", { level: "error" }, id);
  expect((await send("tools/call", tool, id)).messages).toEqual([...logged("error"), done]);
  expect((await send("tools/call", tool)).messages).toEqual([done]);
  const other = await session(all, { scopes: ["syncs", "connections:read"], limits });
  expect((await send("tools/call", tool, id, other)).messages).toEqual([done]);
  const refused = async (params: object, headers = {}) => (await send("logging/setLevel", params, headers)).messages[0];
  expect((await refused({ level: 3 }, id)).error).toMatchObject({ code: -32_602 });
  expect((await refused({ level: "info" })).error).toMatchObject({
    message: expect.stringContaining("Mcp-Session-Id"),
  });
});

it("tells and asks clients without the variables that an action has read, as its log has them", async () => {
  const all = await ready();
  const params = {
    name: "sandbox-api-key_confide",
    arguments: { connection: "ada" },
    _meta: {
      "io.modelcontextprotocol/protocolVersion": modern,
      "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
      "io.modelcontextprotocol/logLevel": "debug",
      progressToken: "p",
    },
  };
  const answer = await fetch(`${all.sidecar.data}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${secretKey}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": modern,
      "mcp-method": "tools/call",
      "mcp-name": params.name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  expect(eventsIn(await answer.text())).toMatchObject([
    { method: "notifications/message", params: { data: "with [redacted]" } },
    { method: "notifications/progress", params: { message: "at [redacted]" } },
    { result: { inputRequests: { word: { params: { message: "Of [redacted]" } } } } },
  ]);
});

/** Calls a tool, and leaves at the signal. */
const callAndLeave = (all: Connecting, name: string, signal: AbortSignal, more: object): Promise<Response> => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": modern,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...more,
  };
  return fetch(`${all.sidecar.data}/mcp`, {
    method: "POST",
    signal,
    headers: {
      authorization: `Bearer ${secretKey}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": modern,
      "mcp-method": "tools/call",
      "mcp-name": name,
      "connection-id": "ada",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: {}, _meta } }),
  });
};

it("cancels the run of a client of 2026-07-28 that leaves, also before the first message", async () => {
  const all = await ready();
  const ended = (name: string) =>
    JSON.parse(all.sidecar.logged.find((line) => line.includes("a tool was called") && line.includes(name)) ?? "{}");
  const leaving = new AbortController();
  const answer = await callAndLeave(all, "sandbox-api-key_forever", leaving.signal, { progressToken: 1 });
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  leaving.abort();
  await expect.poll(() => ended("sandbox-api-key_forever"), patient).toMatchObject({ outcome: "failed" });

  const requests = () => JSON.stringify(all.sandbox.seen().requests);
  // The second asks for no progress: it would get one answer as JSON.
  for (const [name, more] of [
    ["sandbox-api-key_late", { progressToken: 1 }],
    ["sandbox-api-key_silent", {}],
  ] as const) {
    const before = requests();
    const early = new AbortController();
    const unanswered = callAndLeave(all, name, early.signal, more).catch(() => "left");
    await expect.poll(requests, patient).not.toBe(before);
    early.abort();
    expect(await unanswered).toBe("left");
    await expect.poll(() => ended(name), patient).toMatchObject({ outcome: "failed" });
  }
  expect(all.sidecar.logged.join("")).not.toContain("unhandled");
});

it("shows records as resources, and gives a link for a missing account", async () => {
  const all = await ready();
  const base = `latchkey://records/${integration}/Document`;
  const read = async (uri: string, capabilities: object = urlElicitation, key?: string) =>
    (
      await modernCall(
        all,
        "resources/read",
        { uri },
        {
          capabilities,
          headers: uriHeader({ uri }),
          ...(key !== undefined && { key }),
        },
      )
    ).body;
  const asked = await read(base);
  expect(asked.result.resultType).toBe("input_required");
  const plain = await read(base, {});
  const { url } = asked.result.inputRequests.connect.params;
  expect(plain.error).toMatchObject({ message: expect.stringContaining(url), data: { connect_link: url } });
  await follow(all, url);
  const [one] = (await all.connections()).filter((found) => found["provider_config_key"] === integration);
  const id = String(one?.connection_id);
  const run = await all.sidecar.rest("POST", "/sync/trigger", {
    body: { provider_config_key: integration, connection_id: id, syncs: ["documents"] },
  });
  expect(run.status).toBe(200);
  const recordsAt = async (uri: string) => JSON.parse((await read(uri)).result.contents[0].text).records;
  await expect.poll(async () => (await recordsAt(base)).length, patient).toBe(3);
  expect((await recordsAt(`${base}/${id}`))[0]).toMatchObject({ id: "a", name: "Anna" });
  const templates = (await modernCall(all, "resources/templates/list")).body.result.resourceTemplates;
  expect(templates.map(({ uriTemplate }: { uriTemplate: string }) => uriTemplate)).toContain(
    `${base}/{connection}{?cursor}`,
  );
  expect((await read(`${base}/${id}?cursor=no`)).error.code).toBe(-32_602);
  expect((await read(`${base}/unknown`)).result?.resultType ?? "").toBe("input_required");
  const foreign = await session(all, {
    scopes: ["syncs", "connections:read"],
    limits: { connections: [{ integration: key, id: "ada" }] },
  });
  expect((await read(`${base}/${id}`, {}, foreign)).error.message).toBe("resource not found");
});

const uriHeader = ({ uri }: Record<string, unknown>): Record<string, string> =>
  typeof uri === "string" ? { "mcp-name": uri } : {};
