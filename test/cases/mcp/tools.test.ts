import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { Integration_UseRecord, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { type RpcMessage, result, startMcpPeer } from "../../support/peers/mcp-peer.ts";
import { notion } from "../../support/peers/mcp-vendors.ts";
import { adminKey, secretKey, startUnmanaged } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { call, connect, connectionsOf, create, type PeerAndSidecar, toLoopback } from "./connected-peer.ts";

let all: PeerAndSidecar;
let id = "";
let folder = "";
/** A session that may call `search` and tools that begin with `read_`. */
let token = "";

beforeAll(async () => {
  const peer = await startMcpPeer(notion);
  folder = await mkdtemp(join(tmpdir(), "latchkey-test-"));
  await new Promise<void>((resolve) => void openServer.listen(0, "127.0.0.1", resolve));
  const env = { LATCHKEY_ALLOW_PRIVATE: `${peer.allowed()},${openUrl("")}`, LATCHKEY_CONFIG: "/latchkey.yaml" };
  // A machine that is slow for a moment must not answer for the rules.
  const files = { "/latchkey.yaml": "proxy: { overload: { delay: 1m, for: 1m } }" };
  all = { peer, sidecar: await startUnmanaged({ folder, env, files, resolve: toLoopback }) };
  await create(all);
  await connect(all);
  [{ connection_id: id = "" } = {}] = await connectionsOf(all);
  ({ token } = await sessionFor(["search", "read_*"]));
});

beforeEach(() => {
  all.peer.answer = served;
});

afterAll(async () => {
  await all.sidecar.stop();
  await all.peer.close();
  openServer.close();
  await rm(folder, { recursive: true, force: true });
});

const sessionFor = (tools: string[]) =>
  all.sidecar
    .client(AccessSessionService, secretKey)
    .createAccessSession({ limits: { connections: [{ integration: "tools", id }], tools } });

const names = ["search", "read_page", "delete_page", "READ_page", "search2"];
const listed = { tools: names.map((name) => ({ name, inputSchema: { type: "object" } })), nextCursor: "next" };

const served = ({ id: of, method }: RpcMessage, response: ServerResponse) =>
  result(response, of, method === "tools/list" ? listed : { content: [] });

const arrived = () => all.peer.requestsTo("/mcp").filter(({ headers }) => headers.authorization !== undefined).length;

const toolCall = (name: string, args: object = {}) => ({ method: "tools/call", params: { name, arguments: args } });
const modern = (name: string) => ({
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": "tools/call",
  "mcp-name": name,
});
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const toolsOf = ({ body }: Awaited<ReturnType<typeof call>>): string[] =>
  body.result.tools.map(({ name }: { readonly name: string }) => name);

/** A server without authorization, whose host an edge resolves as well. */
const openServer = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => void parts.push(part));
  // A refused message breaks off, and has no end.
  request.on("error", () => {});
  await once(request, "end").catch(() => {});
  if (!request.complete) return;
  if (request.url !== "/mcp") response.writeHead(404).end();
  else served(JSON.parse(Buffer.concat(parts).toString() || "{}") as RpcMessage, response);
});
const openUrl = (path: string) => `http://localhost:${(openServer.address() as AddressInfo).port}${path}`;

type Face = (message: object, headers?: Record<string, string>) => Promise<{ status: number; code: unknown }>;

/** Every way by which a session's message comes. */
const faces: Readonly<Record<string, Face>> = {
  "/mcp": async (message, headers = {}) => {
    const answer = await call(all, message, { headers: { ...bearer(token), ...headers } });
    return { status: answer.status, code: answer.body.error?.data?.code };
  },
  "/proxy": async (message, headers = {}) => {
    const named = { "provider-config-key": "tools", "connection-id": id };
    const body = { jsonrpc: "2.0", id: 1, ...message };
    const answer = await all.sidecar.rest("POST", "/proxy/mcp", {
      body,
      key: token,
      headers: { ...named, ...headers },
    });
    return { status: answer.status, code: answer.body.error?.data?.code };
  },
  "/proxy with a retry, whose body is read first": async (message, headers = {}) => {
    const named = { "provider-config-key": "tools", "connection-id": id, retries: "1" };
    const body = { jsonrpc: "2.0", id: 1, ...message };
    const answer = await all.sidecar.rest("POST", "/proxy/mcp", {
      body,
      key: token,
      headers: { ...named, ...headers },
    });
    return { status: answer.status, code: answer.body.error?.data?.code };
  },
  SendRequest: async (message, headers = {}) => {
    const { problem, status } = await all.sidecar.client(TrafficService, token).sendRequest({
      connection: { environment: "dev", integration: "tools", id },
      method: "POST",
      path: "/mcp",
      headers: Object.entries({ "content-type": "application/json", ...headers }).map(([name, value]) => ({
        name,
        value: Buffer.from(value),
      })),
      body: Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, ...message })),
    });
    return { status, code: problem?.code };
  },
};

describe("a caller with limits of tools", () => {
  it.each(Object.keys(faces))("calls only those tools on %s", async (name) => {
    const face = faces[name] as Face;
    const before = arrived();
    for (const tool of ["delete_page", "READ_page", "search2", "read", ""]) {
      expect([tool, await face(toolCall(tool))]).toEqual([tool, { status: 403, code: "not_in_session" }]);
      expect([tool, await face(toolCall(tool), modern(tool))]).toMatchObject([tool, { status: 403 }]);
    }
    // Lenient servers could take these for a call.
    for (const message of [{ method: "tools/call" }, { ...toolCall("search"), method: "Tools/Call " }]) {
      expect((await face(message)).status).not.toBe(200);
    }
    expect(arrived()).toBe(before);
    for (const tool of ["search", "read_page"]) {
      expect(await face(toolCall(tool))).toMatchObject({ status: 200 });
      expect(await face(toolCall(tool), modern(tool))).toMatchObject({ status: 200 });
    }
    expect(await face({ method: "ping" })).toMatchObject({ status: 200 });
    expect(arrived()).toBe(before + 5);
  });

  it("gets a JSON-RPC error with the id of its message", async () => {
    const answer = await all.sidecar.rest("POST", "/mcp/tools", {
      key: token,
      body: { jsonrpc: "2.0", id: "seven", ...toolCall("delete_page") },
    });
    expect(answer).toMatchObject({
      status: 403,
      body: { jsonrpc: "2.0", id: "seven", error: { code: -32602, data: { code: "not_in_session" } } },
    });
    expect(answer.headers.get("latchkey-error")).toBe("not_in_session");
  });

  it("sees only those tools, in JSON and in events of both directions", async () => {
    const shown = ["search", "read_page"];
    const headers = { ...bearer(token), "accept-encoding": "gzip" };
    const plain = await call(all, { method: "tools/list" }, { headers });
    expect(toolsOf(plain)).toEqual(shown);
    expect(plain.body.result.nextCursor).toBe("next");
    expect(all.peer.requests.at(-1)?.headers["accept-encoding"]).toBe("identity");
    all.peer.answer = ({ id: of = 9 }, response) => {
      const message = JSON.stringify({ jsonrpc: "2.0", id: of, result: listed });
      response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
      response.write(': hello\r\n\r\nid: 1\r\ndata: {"method":"notifications/progress"}\r\n\r\n');
      for (const part of `id: 2\nevent: message\ndata: ${message}\n\ndata: {"left":1}\n\n`.match(/.{1,50}/gs) ?? []) {
        response.write(part);
      }
      response.end();
    };
    for (const method of ["POST", "GET"]) {
      const body = method === "POST" ? { jsonrpc: "2.0", id: 9, method: "tools/list" } : undefined;
      const response = await fetch(`${all.sidecar.data}/mcp/tools`, {
        method,
        headers: { ...bearer(token), "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const events = (await response.text()).split(/\r?\n\r?\n/);
      expect(events.slice(0, 2)).toEqual([": hello", 'id: 1\r\ndata: {"method":"notifications/progress"}']);
      expect(events[2]?.startsWith("id: 2\nevent: message\ndata: ")).toBe(true);
      const { result: inEvent } = JSON.parse(events[2]?.split("data: ")[1] ?? "");
      expect(inEvent.tools.map(({ name }: { readonly name: string }) => name)).toEqual(shown);
      expect(events[3]).toBe('data: {"left":1}');
    }
  });

  it("gets other answers as they are, however large, and no list that cannot be read", async () => {
    const large = { content: [{ type: "text", text: "tools ".repeat(1_000_000) }] };
    all.peer.answer = ({ id: of }, response) => result(response, of, large);
    const answer = await call(all, toolCall("search"), { headers: bearer(token) });
    expect(answer.body.result.content[0].text.length).toBe(6_000_000);
    const message = { method: "tools/list" };
    expect(await call(all, message, { headers: bearer(token) })).toMatchObject({ status: 502 });
    for (const [fields, body] of [
      [{ "content-encoding": "gzip" }, "x"],
      [{}, '{"result":{"tools":['],
    ] as const) {
      all.peer.answer = (_, response) => response.writeHead(200, fields).end(body);
      const refused = await call(all, message, { headers: bearer(token) });
      expect(refused).toMatchObject({ status: 502, body: { error: { code: "provider_malformed" } } });
    }
    all.peer.answer = (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`data: ${JSON.stringify({ result: listed, text: "x".repeat(5_000_000) })}\n\n`);
    };
    await expect(call(all, message, { headers: bearer(token) })).rejects.toThrow();
    all.peer.answer = ({ id: of }, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id: of, error: { code: -32601, message: "no tools here" } }));
    };
    expect((await call(all, message, { headers: bearer(token) })).body.error.message).toBe("no tools here");
  });

  it("may be a key, and a session within the tools of its key", async () => {
    const limits = { connections: [{ integration: "tools", id }], tools: ["read_*"] };
    const { secret } = await all.sidecar.client(EnvironmentService).createKey({
      environment: "dev",
      limits,
      scopes: [1, 3],
    });
    expect((await call(all, toolCall("search"), { headers: bearer(secret) })).status).toBe(403);
    expect((await call(all, toolCall("read_page"), { headers: bearer(secret) })).status).toBe(200);
    const sessions = (tools: unknown) =>
      all.sidecar.rest("POST", "/access-sessions", { key: secret, body: { limits: { tools } } });
    const made = await sessions(["read_page"]);
    expect(made).toMatchObject({ status: 201, body: { data: { limits: { tools: ["read_page"] } } } });
    expect(await sessions(["search"])).toMatchObject({ status: 400, body: { error: { code: "invalid_body" } } });
    const mistaken = await sessions(["a*b"]);
    expect(mistaken.body.error.message).toContain("limits.tools.0");
  });

  it("leaves no trace of arguments in the log, and the tool's name", async () => {
    const integration = { environment: "dev", key: "tools", useRecord: Integration_UseRecord.HOST };
    const updateMask = { paths: ["use_record"] };
    await all.sidecar.client(IntegrationService).updateIntegration({ integration, updateMask });
    await call(all, toolCall("read_page", { secret: "canary-7" }), { headers: bearer(token) });
    const line = () => all.sidecar.logged.findLast((one) => one.includes("a connection was used"));
    await expect.poll(line).toContain('"mcp_tool":"read_page"');
    expect(JSON.parse(line() ?? "{}")).toMatchObject({
      mcp_method: "tools/call",
      integration: "tools",
      connection: id,
    });
    expect(JSON.parse(line() ?? "{}").session).toMatch(/./);
    expect(all.sidecar.logged.join()).not.toContain("canary-7");
  });
});

describe("policies about messages", () => {
  const conditions = [
    'mcp.tool == "delete_page"',
    'mcp.tool == "pay" && mcp.arguments.amount > 100',
    'mcp.method.startsWith("resources/")',
    'mcp.tool == "search2" && !has(mcp.arguments.query)',
  ];
  const created: string[] = [];

  beforeAll(async () => {
    const service = all.sidecar.client(PolicyService);
    for (const condition of conditions) {
      const { policy } = await service.createPolicy({
        policy: { environment: "dev", effect: PolicyEffect.DENY, condition },
      });
      created.push(policy?.id ?? "");
    }
  });

  afterAll(async () => {
    const service = all.sidecar.client(PolicyService);
    for (const one of created) await service.deletePolicy({ environment: "dev", id: one });
  });

  it("decide by tool, arguments and method, with and without headers", async () => {
    await expect.poll(async () => (await call(all, toolCall("delete_page"))).status).toBe(403);
    const before = arrived();
    for (const message of [
      toolCall("delete_page"),
      toolCall("pay", { amount: 101 }),
      toolCall("pay"),
      toolCall("search2"),
    ]) {
      const name = message.params.name;
      for (const headers of [{}, modern(name)]) {
        const refused = await call(all, message, { headers });
        expect([name, refused.status]).toEqual([name, 403]);
        expect(refused.headers.get("latchkey-error")).toBe("denied_by_policy");
      }
    }
    expect((await call(all, { method: "resources/read", params: { uri: "a:b" } })).status).toBe(403);
    expect(arrived()).toBe(before);
    for (const headers of [{}, modern("pay")]) {
      expect((await call(all, toolCall("pay", { amount: 100 }), { headers })).status).toBe(200);
    }
    expect((await call(all, toolCall("search2", { query: "a" }))).status).toBe(200);
    expect((await all.sidecar.rest("DELETE", "/mcp/tools")).status).toBe(200);
  });

  it("answer a message that was read with its id, and believe no header that it contradicts", async () => {
    const refused = await call(all, toolCall("pay", { amount: 101 }));
    expect(refused.body).toMatchObject({ id: 1, error: { code: -32602, data: { code: "denied_by_policy" } } });
    const before = arrived();
    expect(await call(all, toolCall("delete_page"), { headers: modern("search") })).toMatchObject({ status: 400 });
    expect(arrived()).toBe(before);
  });

  it("read large messages for the tool alone", async () => {
    const text = "x".repeat(200_000);
    expect((await call(all, toolCall("search", { text }))).status).toBe(200);
    expect((await call(all, toolCall("delete_page", { text }))).status).toBe(403);
    // Arguments are read up to 64 KiB; what cannot be judged is refused.
    expect((await call(all, toolCall("pay", { amount: 1, text }))).status).toBe(403);
  });

  it("hide tools that they refuse whatever the arguments", async () => {
    expect(toolsOf(await call(all, { method: "tools/list" }))).toEqual(names.filter((name) => name !== "delete_page"));
    expect(toolsOf(await call(all, { method: "tools/list" }, { headers: bearer(token) }))).toEqual([
      "search",
      "read_page",
    ]);
  });
});

describe("the command line", () => {
  it("adds a server by its URL, and creates a session for some of its tools, which holds on an edge", async () => {
    const { control, data, client } = all.sidecar;
    const run = async (...args: string[]) => {
      const env = { LATCHKEY_CONTROL: control, LATCHKEY_KEY: adminKey };
      const terminal = memoryTerminal({ env });
      expect(await runCli(["-e", "dev", ...args], terminal), terminal.err()).toBe(0);
      return terminal.out();
    };
    await run("integrations", "create", "open-mcp", "--mcp", openUrl("/mcp"));
    const { integration } = await client(IntegrationService).getIntegration({ environment: "dev", key: "open-mcp" });
    expect(integration?.mcpUrl).toBe(openUrl("/mcp"));
    const body = { connection_id: "ada", provider_config_key: "open-mcp", credentials: { type: "NONE" } };
    expect((await all.sidecar.rest("POST", "/connections", { body })).status).toBe(201);
    const created = ["access-sessions", "create", "open-mcp/ada", "--limit-tool", "search", "--json"];
    // A control key belongs to no environment and may create sessions of each.
    const session = JSON.parse(await run(...created)) as { readonly token: string };

    const { secret } = await client(EnvironmentService).createKey({ environment: "dev", scopes: [Scope.EDGE] });
    const edge = await startTestEdge({
      brokers: [control],
      env: { LATCHKEY_BROKERS_KEY: secret, LATCHKEY_BROKERS_DATA: data, LATCHKEY_ALLOW_PRIVATE: openUrl("") },
    });
    for (const at of [data, edge.data]) {
      const send = async (message: object) => {
        const fields = { ...bearer(session.token), "connection-id": "ada", "content-type": "application/json" };
        const answer = await fetch(`${at}/mcp/open-mcp`, {
          method: "POST",
          headers: fields,
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }),
        });
        return { status: answer.status, body: await answer.json() };
      };
      expect(await send(toolCall("search"))).toMatchObject({ status: 200, body: { result: { content: [] } } });
      expect(await send(toolCall("read_page"))).toMatchObject({
        status: 403,
        body: { error: { data: { code: "not_in_session" } } },
      });
      const shown = (await send({ method: "tools/list" })).body as { result: typeof listed };
      expect(shown.result.tools.map(({ name }) => name)).toEqual(["search"]);
    }
  });
});
