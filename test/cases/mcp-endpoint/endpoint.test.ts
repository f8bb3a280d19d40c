import { expect, it } from "vitest";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { callTool, follow, integration, legacyCall, modernCall, served, urlElicitation } from "./served.ts";

const names = (answer: { body: { result: { tools: { name: string }[] } } }) =>
  answer.body.result.tools.map(({ name }) => name);

it("lists and calls tools, gives a link for a missing account, and succeeds when it is connected", async () => {
  const all = await served();
  const listed = await modernCall(all, "tools/list");
  expect(names(listed)).toEqual([
    "list_connections",
    "connect_account",
    "provider_request",
    "sandbox-files_count",
    "sandbox-files_list_Document",
  ]);
  expect(listed.body.result).toMatchObject({ resultType: "complete", ttlMs: 60_000, cacheScope: "private" });
  const again = await modernCall(all, "tools/list");
  expect(JSON.stringify(again.body)).toBe(JSON.stringify(listed.body));
  const tool = listed.body.result.tools.find(({ name }: { name: string }) => name === "sandbox-files_count");
  expect(tool.inputSchema).toMatchObject({
    type: "object",
    properties: { text: { type: "string" }, connection: { type: "string" } },
    required: ["text"],
  });
  expect(tool.outputSchema).toMatchObject({ properties: { count: { type: "number" } } });

  const capabilities = urlElicitation;
  const name = "sandbox-files_count";
  const asked = await callTool(all, name, { text: "Q" }, { capabilities });
  expect(asked.result).toMatchObject({
    resultType: "input_required",
    inputRequests: { connect: { method: "elicitation/create", params: { mode: "url" } } },
  });
  const { url } = asked.result.inputRequests.connect.params;
  // The same caller gets the same link, in the form that each of its clients takes.
  const plain = await callTool(all, name, { text: "Q" });
  expect(plain.result).toMatchObject({ resultType: "complete", isError: true });
  expect(plain.result.content[0].text).toContain(url);

  const retried = modernCall(
    all,
    "tools/call",
    {
      name,
      arguments: { text: "Q" },
      inputResponses: { connect: { action: "accept" } },
      requestState: asked.result.requestState,
    },
    { capabilities, id: 2 },
  );
  await follow(all, url);
  const done = (await retried).body.result;
  expect(done).toMatchObject({ resultType: "complete", structuredContent: { count: expect.any(Number) } });
  expect(JSON.parse(done.content[0].text)).toEqual(done.structuredContent);
  expect(done.isError).toBeUndefined();

  const connections = await callTool(all, "list_connections");
  expect(connections.result.structuredContent.connections).toEqual([
    { integration, connection: expect.any(String), state: "active" },
  ]);
  const request = await callTool(all, "provider_request", {
    integration,
    path: "/drive/v3/files",
    query: { pageSize: 1, fields: ["files"] },
  });
  expect(request.result.structuredContent).toMatchObject({ status: 200, body: { files: [expect.anything()] } });

  const failed = await callTool(all, name, { text: "" });
  expect(failed.result).toMatchObject({ isError: true });
  expect(failed.result.content[0].text).toContain("text must not be empty");
  const invalid = await callTool(all, name, {});
  expect(invalid.result).toMatchObject({ isError: true, _meta: { "latchkey/error": { code: "invalid_body" } } });

  const { events } = await all.sidecar.client(LogService).listAuditEvents({ action: "mcp.call" });
  expect(events.map(({ targets }) => targets[0])).toContain(name);
  const lines = all.sidecar.logged.filter((line) => line.includes("a tool was called")).map((line) => JSON.parse(line));
  expect(lines.map(({ tool: called, outcome }) => [called, outcome])).toContainEqual([name, "account_needed"]);
  expect(lines.at(-1)).toMatchObject({ integration, client: "tester/1.0", code: "invalid_body", outcome: "failed" });
  expect(await all.sidecar.metric('latchkey_mcp_calls_total{kind="action",outcome="done"}')).toBe(1);
});

it("serves clients of 2025-11-25, whose link comes as an error", async () => {
  const all = await served();
  const began = await legacyCall(all, "initialize", {
    protocolVersion: "2025-11-25",
    capabilities: urlElicitation,
    clientInfo: { name: "older", version: "2" },
  });
  expect(began.body.result).toMatchObject({ protocolVersion: "2025-11-25", capabilities: { tools: {} } });
  const session = began.headers.get("mcp-session-id") ?? "";
  expect(session).toMatch(/^[\x21-\x7e]+$/);
  const headers = { "mcp-session-id": session };
  const ready = await all.sidecar.rest("POST", "/mcp", {
    body: { jsonrpc: "2.0", method: "notifications/initialized" },
    headers,
  });
  expect([ready.status, ready.body]).toEqual([202, undefined]);
  expect((await legacyCall(all, "ping", {}, { headers })).body.result).toEqual({});
  expect(names(await legacyCall(all, "tools/list", {}, { headers }))).toContain("sandbox-files_count");

  const call = { name: "sandbox-files_count", arguments: { text: "Q" } };
  const { error } = (await legacyCall(all, "tools/call", call, { headers })).body;
  expect(error).toMatchObject({
    code: -32_042,
    data: { elicitations: [{ mode: "url", elicitationId: expect.any(String) }] },
  });
  // A client that has not said what it can do gets the link as text.
  const plain = (await legacyCall(all, "tools/call", call)).body.result;
  expect(plain.content[0].text).toContain(error.data.elicitations[0].url);
  await follow(all, error.data.elicitations[0].url);
  const done = (await legacyCall(all, "tools/call", call, { headers })).body.result;
  expect(done).toEqual({ content: [expect.anything()], structuredContent: { count: expect.any(Number) } });
  const lines = all.sidecar.logged.filter((line) => line.includes("a tool was called")).map((line) => JSON.parse(line));
  expect(lines.at(-1)).toMatchObject({ client: "older/2", outcome: "done" });
});
