import { expect, it } from "vitest";
import { PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import {
  callTool,
  errorIn,
  follow,
  integration,
  legacyCall,
  modern,
  modernCall,
  served,
  urlElicitation,
} from "./served.ts";

/** An action of another integration. */
const other = "sandbox-api-key";
const ping = `
  import { createAction } from "latchkey/scripts";
  export default createAction({ description: "Says pong.", exec: async () => "pong" });`;

const secrets = ["canary-api-key-0123456789", "sandbox-secret"];

async function session(all: Connecting, body: object): Promise<string> {
  const { status, body: made } = await all.sidecar.rest("POST", "/access-sessions", { body });
  expect([status, made]).toEqual([201, expect.anything()]);
  return made.data.token;
}

const idOf = (connections: Awaited<ReturnType<Connecting["connections"]>>): string =>
  connections.find((one) => one["provider_config_key"] === integration)?.connection_id ?? "";

const toolsOf = async (all: Connecting, key?: string): Promise<string[]> => {
  const { body } = await modernCall(all, "tools/list", {}, key === undefined ? {} : { key });
  return body.result.tools.map(({ name }: { name: string }) => name);
};

async function importKey(all: Connecting, id: string, key = secrets[0]): Promise<void> {
  const { status } = await all.sidecar.rest("POST", "/connections", {
    body: { provider_config_key: other, connection_id: id, credentials: { type: "API_KEY", apiKey: key } },
  });
  expect(status).toBe(201);
}

const ready = () => served({ others: { [other]: { "actions/ping.ts": ping } } });

it("shows each session its own tools alone, and gives links for its own connections alone", async () => {
  const all = await ready();
  await importKey(all, "ada");
  const scopes = ["proxy", "syncs", "connections:read", "connections:write"];
  const one = await session(all, { scopes, limits: { connections: [{ integration, id: "ada" }] } });
  const two = await session(all, { scopes, limits: { connections: [{ integration: other, id: "ada" }] } });
  const bare = await session(all, { limits: { connections: [{ integration: other, id: "ada" }] } });
  const own = ["list_connections", "connect_account", "provider_request"];
  expect(await toolsOf(all, one)).toEqual([...own, "sandbox-files_count", "sandbox-files_list_Document"]);
  expect(await toolsOf(all, two)).toEqual([...own, "sandbox-api-key_ping"]);
  expect(await toolsOf(all, bare)).toEqual(["provider_request"]);

  // The connection is the session's: there is no choice to show.
  const { body } = await modernCall(all, "tools/list", {}, { key: one });
  expect(JSON.stringify(body.result.tools.at(-1))).not.toContain('"connection"');
  expect(JSON.stringify(body)).not.toContain(other);

  // Tools of the other are unknown, by whichever way.
  const foreign = await callTool(all, "sandbox-api-key_ping", {}, { key: one });
  expect(foreign.error).toMatchObject({ code: -32_602, message: "unknown tool: sandbox-api-key_ping" });
  expect((await callTool(all, "sandbox-api-key_ping", {}, { key: two })).result.content[0].text).toBe("pong");
  const request = await callTool(all, "provider_request", { integration: other, path: "/" }, { key: one });
  expect(request.result).toMatchObject({ isError: true, _meta: { "latchkey/error": { code: "not_in_session" } } });
  const listed = await callTool(all, "list_connections", {}, { key: one });
  expect(listed.result.structuredContent.connections).toEqual([{ integration, connection: "ada", state: "missing" }]);

  // The link makes the connection that the session names.
  const asked = await callTool(all, "sandbox-files_count", { text: "Q" }, { key: one, capabilities: urlElicitation });
  const { url } = asked.result.inputRequests.connect.params;
  await follow(all, url);
  const done = await callTool(all, "sandbox-files_count", { text: "Q" }, { key: one });
  expect(done.result.structuredContent).toEqual({ count: expect.any(Number) });
  const again = await callTool(all, "list_connections", {}, { key: one });
  expect(again.result.structuredContent.connections).toEqual([{ integration, connection: "ada", state: "active" }]);

  // The limit on tools holds for those of the endpoint.
  const few = await session(all, {
    scopes: ["syncs", "proxy"],
    limits: { connections: [{ integration: other, id: "ada" }], tools: ["sandbox-api-key_*"] },
  });
  expect(await toolsOf(all, few)).toEqual(["sandbox-api-key_ping"]);
  expect((await callTool(all, "sandbox-api-key_ping", {}, { key: few })).result.content[0].text).toBe("pong");
  const outside = await modernCall(all, "tools/call", { name: "provider_request", arguments: {} }, { key: few });
  expect(outside.status).toBe(403);
  expect(outside.body.error).toMatchObject({ code: -32_602, data: { code: "not_in_session" } });

  // Without the scope there is no link, and none of the tool either.
  const plain = await session(all, { limits: { connections: [{ integration, id: "ada" }] } });
  await all.sidecar.rest("DELETE", `/connections/ada?provider_config_key=${integration}`);
  const refused = await callTool(
    all,
    "provider_request",
    { integration, path: "/" },
    { key: plain, capabilities: urlElicitation },
  );
  expect(refused.result).toMatchObject({ isError: true, _meta: { "latchkey/error": { code: "unknown_connection" } } });
  expect(JSON.stringify(refused)).not.toContain("session_token");
});

it("lets limited callers read records by the same rule over HTTP and as a tool", async () => {
  const all = await ready();
  const asked = await callTool(all, "connect_account", { integration }, { capabilities: urlElicitation });
  await follow(all, asked.result.inputRequests.connect.params.url);
  const id = idOf(await all.connections());
  const scopes = ["connections:read", "syncs"];
  const connections = [{ integration, id }];
  const name = "sandbox-files_list_Document";
  const both = async (body: object) => {
    const key = await session(all, body);
    const headers = { "provider-config-key": integration, "connection-id": id };
    const { status, body: listed } = await all.sidecar.rest("GET", "/records?model=Document", { key, headers });
    const { result, error } = await callTool(all, name, {}, { key });
    const mayCall = result !== undefined && result.isError === undefined;
    return [status, listed.error?.code, mayCall, error?.message ?? errorIn(result)?.code];
  };
  expect(await both({ scopes, limits: { connections } })).toEqual([200, undefined, true, undefined]);
  expect(await both({ scopes, limits: { connections }, budget: 1 })).toEqual([200, undefined, false, "not_in_session"]);
  const [refused, missing] = [`unknown tool: ${name}`, "not_in_session"];
  expect(await both({ scopes: ["connections:read"], limits: { connections } })).toEqual([
    403,
    "missing_scope",
    false,
    refused,
  ]);
  expect(await both({ scopes, limits: { connections, methods: ["GET"] } })).toEqual([403, missing, false, refused]);
  await importKey(all, "ada");
  const elsewhere = await both({ scopes, limits: { connections: [{ integration: other, id: "ada" }] } });
  expect(elsewhere).toEqual([403, missing, false, refused]);
});

it("asks for a broken account to be connected again, and never replaces a connection by an old link", async () => {
  const all = await ready();
  const scopes = ["syncs", "connections:write", "connections:read"];
  const limits = { connections: [{ integration, id: "ada" }] };
  const [key, second] = [await session(all, { scopes, limits }), await session(all, { scopes, limits })];
  const link = async (of: string) => {
    const { result } = await callTool(
      all,
      "connect_account",
      { integration },
      { key: of, capabilities: urlElicitation },
    );
    return result.inputRequests.connect.params.url as string;
  };
  const [first, stale] = [await link(key), await link(second)];
  expect(stale).not.toBe(first);
  await follow(all, first);
  await expect(follow(all, stale)).rejects.toThrow("not connected");

  all.sandbox.revoke();
  const broken = await callTool(all, "sandbox-files_count", { text: "Q" }, { key, capabilities: urlElicitation });
  const { message, url } = broken.result.inputRequests.connect.params;
  expect(message).toContain("no longer works");
  await follow(all, url);
  expect((await callTool(all, "sandbox-files_count", { text: "Q" }, { key })).result.isError).toBeUndefined();
});

it("judges requests by policies and limits, as `/proxy` does", async () => {
  const all = await ready();
  await importKey(all, "ada");
  const policies = all.sidecar.client(PolicyService);
  await policies.createPolicy({
    policy: { id: "no-writes", environment: "dev", effect: 2, condition: 'request.method != "GET"' },
  });
  const ask = (given: object, key?: string) =>
    callTool(
      all,
      "provider_request",
      { integration: other, path: "/drive/v3/files", ...given },
      key === undefined ? {} : { key },
    );
  expect(errorIn((await ask({ method: "DELETE" })).result)).toMatchObject({ code: "denied_by_policy" });
  const limited = await session(all, {
    limits: { connections: [{ integration: other, id: "ada" }], paths: ["/gmail/**"] },
  });
  expect(errorIn((await ask({}, limited)).result)).toMatchObject({ code: "not_in_session" });
  const once = await session(all, { limits: { connections: [{ integration: other, id: "ada" }] }, budget: 1 });
  expect((await ask({}, once)).result.structuredContent).toMatchObject({ status: expect.any(Number) });
  expect(errorIn((await ask({}, once)).result)).toMatchObject({ code: "not_in_session" });
});

it("tells no secret in any answer, listing, log or audit entry", async () => {
  const all = await ready();
  await importKey(all, "ada");
  const texts: string[] = [];
  const keep = async (answer: Promise<unknown>) => void texts.push(JSON.stringify(await answer));
  const asked = await callTool(all, "sandbox-files_count", { text: "Q" }, { capabilities: urlElicitation });
  await follow(all, asked.result.inputRequests.connect.params.url);
  for (const capabilities of [{}, urlElicitation]) {
    await keep(modernCall(all, "server/discover", {}, { capabilities }));
    for (const kind of ["tools", "prompts", "resources", "resources/templates"]) {
      await keep(modernCall(all, `${kind}/list`, {}, { capabilities }));
    }
    const uri = `latchkey://records/${integration}/Document`;
    await keep(modernCall(all, "resources/read", { uri }, { capabilities, headers: { "mcp-name": uri } }));
    const ref = { type: "ref/resource", uri: `${uri}/{connection}{?cursor}` };
    await keep(modernCall(all, "completion/complete", { ref, argument: { name: "connection", value: "" } }));
    for (const [name, given] of [
      ["list_connections", {}],
      ["connect_account", { integration }],
      ["connect_account", { integration: other }],
      ["sandbox-files_count", { text: "Q" }],
      ["sandbox-api-key_ping", {}],
      ["sandbox-files_list_Document", {}],
      ["provider_request", { integration, path: "/drive/v3/files" }],
      ["provider_request", { integration: other, path: "/drive/v3/files" }],
      ["provider_request", { integration: other, path: "/no/such/path" }],
      ["provider_request", { integration: other, path: "/drive/v3/files", headers: { "x-api-key": "mine" } }],
    ] as const) {
      await keep(callTool(all, name, given, { capabilities }));
      await keep(legacyCall(all, "tools/call", { name, arguments: given }));
    }
  }
  const { credentials } = await all.connection(integration, idOf(await all.connections()));
  const tokens = [credentials["access_token"], credentials["refresh_token"]].map(String);
  expect(tokens.every((token) => token.length > 10)).toBe(true);
  const logs = all.sidecar.logged.filter((line) => !line.includes("session_token"));
  for (const secret of [...secrets, ...tokens]) {
    expect(texts.filter((text) => text.includes(secret))).toEqual([]);
    expect(logs.filter((line) => line.includes(secret))).toEqual([]);
  }
});

it("refuses what is no message of its era", async () => {
  const all = await served();
  const { rest } = all.sidecar;
  const status = async (answer: Promise<{ status: number; body: { error?: { code: number } } }>) => {
    const { status: got, body } = await answer;
    return [got, body?.error?.code];
  };
  const post = (body: unknown, headers: Record<string, string> = {}, key?: string) =>
    rest("POST", "/mcp", { body, headers, ...(key !== undefined && { key }) });
  const tool = { name: "list_connections", arguments: {} };
  expect(await status(modernCall(all, "tools/call", tool, { headers: { "mcp-name": "other" } }))).toEqual([
    400, -32_020,
  ]);
  expect(await status(modernCall(all, "tools/list", {}, { headers: { "mcp-method": "tools/call" } }))).toEqual([
    400, -32_020,
  ]);
  expect(await status(modernCall(all, "ping"))).toEqual([404, -32_601]);
  expect(await status(modernCall(all, "logging/setLevel", { level: "info" }))).toEqual([404, -32_601]);
  expect(await status(legacyCall(all, "subscriptions/listen"))).toEqual([200, -32_601]);
  expect(
    await status(legacyCall(all, "tools/list", {}, { headers: { "mcp-protocol-version": "1999-01-01" } })),
  ).toEqual([400, -32_022]);
  expect(
    await status(
      post(
        { jsonrpc: "2.0", id: 1, method: "tools/list" },
        { "mcp-protocol-version": modern, "mcp-method": "tools/list" },
      ),
    ),
  ).toEqual([400, -32_602]);
  expect(await status(post("{"))).toEqual([400, -32_700]);
  expect(await status(post([{ jsonrpc: "2.0", id: 1, method: "ping" }]))).toEqual([400, -32_600]);
  expect(await status(post({ jsonrpc: "2.0", id: 1, method: "ping" }, {}, "lk_unknown"))).toEqual([401, -32_600]);
  expect(await status(post({ jsonrpc: "2.0", id: null, method: "ping" }))).toEqual([400, -32_600]);
  expect((await rest("GET", "/mcp")).status).toBe(405);
  expect((await rest("DELETE", "/mcp")).status).toBe(405);
  const evil = await legacyCall(all, "ping", {}, { headers: { origin: "https://evil.example" } });
  expect([evil.status, evil.headers.get("latchkey-error")]).toEqual([403, "origin_not_allowed"]);
  const page = await legacyCall(all, "ping", {}, { headers: { origin: "https://app.example.com" } });
  expect([page.status, page.headers.get("access-control-allow-origin")]).toEqual([200, "https://app.example.com"]);
});
