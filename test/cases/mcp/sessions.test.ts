import { mkdtemp, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { Connection_State } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { startCollector } from "../../support/peers/collector.ts";
import { result, startMcpPeer } from "../../support/peers/mcp-peer.ts";
import { notion } from "../../support/peers/mcp-vendors.ts";
import { adminKey, secretKey, startTestSidecar, startUnmanaged } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { call, connect, connectionsOf, create, type PeerAndSidecar, toLoopback } from "./connected-peer.ts";

let all: PeerAndSidecar;
let id = "";
let folder = "";

beforeAll(async () => {
  const peer = await startMcpPeer(notion);
  folder = await mkdtemp(join(tmpdir(), "latchkey-test-"));
  const env = { LATCHKEY_ALLOW_PRIVATE: peer.allowed(), LATCHKEY_CONFIG: "/latchkey.yaml" };
  const files = { "/latchkey.yaml": "proxy: { overload: { delay: 1m, for: 1m } }" };
  all = { peer, sidecar: await startUnmanaged({ folder, env, files, resolve: toLoopback }) };
  await create(all);
  await connect(all);
  [{ connection_id: id = "" } = {}] = await connectionsOf(all);
  all.peer.answer = ({ id: of }, response) => result(response, of, { content: [] });
});

afterAll(async () => {
  await all.sidecar.stop();
  await all.peer.close();
  await rm(folder, { recursive: true, force: true });
});

const sessions = () => all.sidecar.client(AccessSessionService, secretKey);
const sessionFor = (limits: object, more: object = {}) =>
  sessions().createAccessSession({ limits: { connections: [{ integration: "tools", id }], ...limits }, ...more });
const explained = (session: string) => sessions().explainAccessSession({ id: session });
const callTool = (token: string, name: string) =>
  call(
    all,
    { method: "tools/call", params: { name, arguments: {} } },
    { headers: { authorization: `Bearer ${token}` } },
  );

const cli = async (...args: readonly string[]) => {
  const terminal = memoryTerminal({ env: { LATCHKEY_KEY: secretKey, LATCHKEY_CONTROL: all.sidecar.control } });
  const code = await runCli(["-e", "dev", ...args], terminal);
  return { code, out: terminal.out() };
};

it("says what a session may do: hosts, methods, paths, tools, policies, budget", async () => {
  const policies = all.sidecar.client(PolicyService, adminKey);
  const about = (kind: "integration" | "key" | "accessSession", value: string) => ({ kind: { case: kind, value } });
  const { session, token } = await sessionFor({ methods: ["POST"], tools: ["search", "read_*"] }, { budget: 5n });
  const sessionId = session?.id ?? "";
  for (const [name, effect, where] of [
    ["everywhere", PolicyEffect.LOG, undefined],
    ["of-tools", PolicyEffect.ALLOW, about("integration", "tools")],
    ["of-others", PolicyEffect.DENY, about("integration", "others")],
    ["of-session", PolicyEffect.DENY, about("accessSession", sessionId)],
    ["of-key", PolicyEffect.HOLD, about("key", "other-key")],
    ["off", PolicyEffect.DENY, undefined],
  ] as const) {
    const condition = name === "of-tools" ? "true" : 'mcp.tool == "pay"';
    const disabled = name === "off";
    const policy = { environment: "dev", id: name, effect, condition, disabled, ...(where && { about: where }) };
    await policies.createPolicy({ policy });
  }

  expect((await callTool(token, "search")).status).toBe(200);
  const answer = await explained(sessionId);
  expect(answer).toMatchObject({ refusal: "", session: { id: sessionId, budget: 5n } });
  expect(answer.session?.budgetLeft).toBeLessThan(5n);
  expect(answer.connections).toMatchObject([
    {
      ...{ integration: "tools", connection: id, mcp: true, state: Connection_State.ACTIVE, refusal: "" },
      ...{ methods: ["POST"], paths: [], tools: ["search", "read_*"], noTools: false },
      hosts: [new URL(all.peer.url).host],
    },
  ]);
  expect(answer.policies.map(({ policy, integrations }) => [policy?.id, policy?.condition, integrations])).toEqual([
    ["of-session", 'mcp.tool == "pay"', []],
    ["of-tools", "true", ["tools"]],
    ["everywhere", 'mcp.tool == "pay"', []],
  ]);

  const shown = await cli("access-sessions", "explain", sessionId);
  expect(shown.code).toBe(0);
  for (const text of [`tools/${id}`, "search,read_*", "of-session", "deny", "of 5 requests left", "requests on"])
    expect(shown.out).toContain(text);
  for (const name of ["everywhere", "of-tools", "of-others", "of-session", "of-key", "off"])
    await policies.deletePolicy({ environment: "dev", id: name });
});

it("says why a session may do nothing", async () => {
  const elsewhere = await sessionFor({ hosts: ["api.example.com"] });
  expect((await explained(elsewhere.session?.id ?? "")).connections).toMatchObject([
    { hosts: [], refusal: "the limits include no host of the provider" },
  ]);
  const pathless = await sessionFor({ paths: ["/other/**"] });
  expect((await explained(pathless.session?.id ?? "")).connections).toMatchObject([
    { refusal: "the limits do not include the path of messages to the MCP server" },
  ]);
  await sessions().endAccessSession({ id: elsewhere.session?.id ?? "" });
  expect(await explained(elsewhere.session?.id ?? "")).toMatchObject({
    refusal: expect.stringContaining("the session was ended by"),
    scopes: [],
  });
  expect((await cli("access-sessions", "explain", elsewhere.session?.id ?? "")).code).toBe(1);

  // The limits of its key count as they are now.
  const keys = all.sidecar.client(EnvironmentService, adminKey);
  const { secret } = await keys.createKey({ id: "maker", environment: "dev", scopes: [1, 2, 3] });
  const made = await all.sidecar
    .client(AccessSessionService, secret)
    .createAccessSession({ limits: { connections: [{ integration: "tools", id }] } });
  await keys.revokeKey({ id: "maker" });
  const orphan = await explained(made.session?.id ?? "");
  expect(orphan.refusal).toBe("the session has ended with the key that created it");
});

it("counts requests and tools of live sessions, and lists those that are in use", async () => {
  const { session, token } = await sessionFor({ tools: ["search", "read_*"] });
  const unused = await sessionFor({});
  const sessionId = session?.id ?? "";
  for (const tool of ["search", "search", "read_page", "delete_page"]) await callTool(token, tool);
  const { use } = (await explained(sessionId)).session ?? {};
  expect(use).toMatchObject({ replica: hostname(), requests: 4n, refused: 1n });
  const tools = use?.tools.map(({ integration, tool, calls, refused }) => [integration, tool, calls, refused]);
  expect(tools).toEqual([
    ["tools", "delete_page", 0n, 1n],
    ["tools", "read_page", 1n, 0n],
    ["tools", "search", 2n, 0n],
  ]);
  expect(use?.lastUsedAt?.seconds).toBeGreaterThan(0n);

  const listed = (await sessions().listAccessSessions({ inUse: true })).sessions.map((one) => one.id);
  expect(listed[0]).toBe(sessionId);
  expect(listed).not.toContain(unused.session?.id);
  await expect(sessions().listAccessSessions({ inUse: true, ended: true })).rejects.toThrow("in_use");
});

it("records each relayed call in metrics, log and trace, and refused tools in the audit trail", async () => {
  const { sidecar } = all;
  const { session, token } = await sessionFor({ tools: ["search"] });
  const bearer = { authorization: `Bearer ${token}` };
  const policies = sidecar.client(PolicyService, adminKey);
  const policy = {
    environment: "dev",
    id: "no-pay",
    effect: PolicyEffect.DENY,
    condition: 'mcp.tool == "search" && mcp.arguments.pay == true',
  };
  const series = (method: string, outcome: string) =>
    sidecar.metric(
      `latchkey_mcp_messages_total{environment="dev",integration="tools",method="${method}",outcome="${outcome}"}`,
    );
  const before = (await series("tools/call", "refused")) ?? 0;
  const linesBefore = sidecar.logged.length;

  const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call" };
  await callTool(token, "search");
  await callTool(token, "delete_page");
  await callTool(token, "delete_page");
  // Refused by its headers: the message was not read.
  await policies.createPolicy({ policy });
  const pay = { method: "tools/call", params: { name: "search", arguments: { pay: true } } };
  await call(all, pay, { headers: { ...bearer, ...modern, "mcp-name": "search" } });
  await policies.deletePolicy({ environment: "dev", id: "no-pay" });
  await call(all, { method: `made-up-${"x".repeat(300)}` }, { headers: bearer });
  await sidecar
    .rest("GET", "/mcp/tools", { headers: { ...bearer, accept: "text/event-stream" } })
    .catch(() => undefined);

  await expect.poll(() => series("tools/call", "refused")).toBe(before + 3);
  expect(await series("(other)", "done")).toBe(1);
  const lines = sidecar.logged.slice(linesBefore).map((line) => JSON.parse(line) as Record<string, unknown>);
  const called = lines.filter(({ msg }) => msg === "a tool was called");
  const common = { integration: "tools", connection: id, access_session: session?.id, environment: "dev" };
  expect(called).toMatchObject([
    { ...common, tool: "search", outcome: "done" },
    { ...common, tool: "delete_page", outcome: "refused", code: "not_in_session" },
    { ...common, tool: "delete_page", outcome: "refused", code: "not_in_session" },
    { ...common, tool: "search", outcome: "refused", code: "denied_by_policy" },
  ]);
  expect(JSON.stringify(called)).not.toContain('pay":true');

  // Repeated refusals make one entry.
  const ofSession = async () => {
    const { events } = await sidecar
      .client(LogService, adminKey)
      .listAuditEvents({ environment: "dev", action: "mcp" });
    return events
      .filter(({ targets }) => targets.includes(session?.id ?? ""))
      .map(({ action, targets, fields }) => [action, targets, fields]);
  };
  await expect.poll(ofSession).toHaveLength(2);
  expect(await ofSession()).toEqual([
    ["mcp.refuse", ["search", "tools", session?.id], ["denied_by_policy"]],
    ["mcp.refuse", ["delete_page", "tools", session?.id], ["not_in_session"]],
  ]);
});

it("names tool, session and connection in the span of a relayed call", async () => {
  const collector = await startCollector();
  const env = { ...collector.env, LATCHKEY_ALLOW_PRIVATE: all.peer.allowed() };
  const sidecar = await startTestSidecar({ env, resolve: toLoopback });
  const traced = { sidecar, peer: all.peer };
  await create(traced);
  await connect(traced);
  const [{ connection_id: connection = "" } = {}] = await connectionsOf(traced);
  const { session, token } = await sidecar
    .client(AccessSessionService, secretKey)
    .createAccessSession({ limits: { connections: [{ integration: "tools", id: connection }] }, scopes: [1, 2] });
  const headers = { authorization: `Bearer ${token}` };
  await call(traced, { method: "tools/call", params: { name: "search", arguments: {} } }, { headers });
  const ofTool = () => collector.spans().find(({ attributes }) => attributes["gen_ai.tool.name"] === "search");
  await expect.poll(ofTool).toMatchObject({
    attributes: {
      "http.route": "/mcp/*",
      "mcp.method.name": "tools/call",
      "latchkey.integration": "tools",
      "latchkey.connection": connection,
      "latchkey.access_session": session?.id,
    },
  });
  await sidecar.rest("POST", "/mcp", {
    body: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_connections", arguments: {} } },
    headers: { ...headers, accept: "application/json, text/event-stream" },
  });
  const ofOwn = () => collector.spans().find(({ attributes }) => attributes["gen_ai.tool.name"] === "list_connections");
  await expect
    .poll(ofOwn)
    .toMatchObject({ attributes: { "mcp.method.name": "tools/call", "latchkey.access_session": session?.id } });
});
