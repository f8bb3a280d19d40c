import { mkdtemp, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { Connection_State } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { result, startMcpPeer } from "../../support/peers/mcp-peer.ts";
import { notion } from "../../support/peers/mcp-vendors.ts";
import { adminKey, secretKey, startUnmanaged } from "../../support/sidecar/harness.ts";
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
  expect(use?.lastUsedAt?.seconds).toBeGreaterThan(0n);

  const listed = (await sessions().listAccessSessions({ inUse: true })).sessions.map((one) => one.id);
  expect(listed[0]).toBe(sessionId);
  expect(listed).not.toContain(unused.session?.id);
  await expect(sessions().listAccessSessions({ inUse: true, ended: true })).rejects.toThrow("in_use");
});
