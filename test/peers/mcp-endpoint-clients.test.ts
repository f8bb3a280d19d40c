import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { refreshDashboard } from "../../bin/dashboard.ts";
import { Scope } from "../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyService } from "../../src/gen/latchkey/v1/policy_pb.ts";
import { call, connect, create, peerAndSidecar } from "../cases/mcp/connected-peer.ts";
import { callTool, follow, integration, served } from "../cases/mcp-endpoint/served.ts";
import { holdPolicy, patient } from "../support/approvals/holding.ts";
import { result } from "../support/peers/mcp-peer.ts";
import { notion } from "../support/peers/mcp-vendors.ts";
import type { Connecting } from "../support/sidecar/connecting.ts";
import { secretKey } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const tool = "sandbox-files_count";

interface ClientRun {
  readonly tools: readonly string[];
  readonly links: readonly string[];
  /** URI of the resource that has changed. */
  readonly updated?: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of a result.
  readonly result: any;
}

/** Runs a client, and opens the link that it shows. */
async function run(
  all: Pick<Connecting, "sidecar">,
  command: readonly string[],
  env: Record<string, string>,
  open: (link: string) => Promise<unknown>,
): Promise<ClientRun> {
  const [program = "", ...given] = command;
  const child = spawn(program, given, {
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      ADDRESS: `${all.sidecar.data}/mcp`,
      KEY: secretKey,
      TOOL: tool,
      ARGUMENTS: JSON.stringify({ text: "Q" }),
      ...env,
    },
  });
  onTestFinished(() => void child.kill());
  const errors: string[] = [];
  child.stderr.on("data", (text) => errors.push(String(text)));
  const links: string[] = [];
  let found: Partial<ClientRun> = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const step = JSON.parse(line);
    found = { ...found, ...step };
    if (step.link === undefined) continue;
    links.push(step.link);
    await open(step.link);
    child.stdin.write("done\n");
  }
  if (found.result === undefined) throw new Error(`no result: ${errors.join("")}`);
  return { tools: found.tools ?? [], links, updated: found.updated, result: found.result };
}

const officialProgram = fileURLToPath(new URL("clients/mcp-endpoint.mjs", import.meta.url));
const raw = fileURLToPath(new URL("clients/mcp_raw.py", import.meta.url));

const clients = [
  ["the official client of 2025-11-25", "clients", [process.execPath, officialProgram], "older"],
  ["the official client of 2026-07-28", "clients", [process.execPath, officialProgram], "modern"],
  ["a client in Python over raw HTTP, of 2025-11-25", "python", ["python3", raw], "older"],
  ["a client in Python over raw HTTP, of 2026-07-28", "python", ["python3", raw], "modern"],
] as const;

/** Saves the records of the only connection. */
async function runSync(all: Connecting): Promise<void> {
  const [connection] = await all.connections();
  const body = { provider_config_key: integration, connection_id: connection?.connection_id, syncs: ["documents"] };
  expect((await all.sidecar.rest("POST", "/sync/trigger", { body })).status).toBe(200);
}

for (const [name, need, command, era] of clients) {
  it.skipIf(lacks(need))(`gives ${name} tools, a link, and the result after it`, async () => {
    const all = await served();
    // Subscriptions of 2026-07-28 have tests of their own, on raw HTTP.
    const uri = `latchkey://records/${integration}/Document`;
    const follows = need === "clients" && era === "older";
    const given = { ERA: era, ...(follows && { FOLLOWS: uri }) };
    const found = await run(all, command, given, (link) => (link === uri ? runSync(all) : follow(all, link)));
    const { tools, result, updated } = found;
    const links = found.links.filter((link) => link !== uri);
    expect(updated).toBe(follows ? uri : undefined);
    expect(tools).toContain(tool);
    expect(links).toHaveLength(1);
    expect(result).toMatchObject({ structuredContent: { count: expect.any(Number) } });
    expect(result.isError ?? false).toBe(false);
  });
}

it.skipIf(lacks("clients") || lacks("python"))(
  "shows clients of both eras the page of an approval, and takes their repeated call",
  { timeout: 120_000 },
  async () => {
    await refreshDashboard();
    const all = await served({ settings: { dashboard: { enabled: true } } });
    const { rest, client, control } = all.sidecar;
    const integration = "sandbox-api-key";
    const credentials = { type: "API_KEY", apiKey: "sandbox-api-key" };
    const made = await rest("POST", "/connections", {
      body: { provider_config_key: integration, connection_id: "ada", credentials },
    });
    expect(made.status).toBe(201);
    const scopes = [Scope.APPROVALS_DECIDE];
    const { secret: key } = await client(EnvironmentService).createKey({ environment: "dev", scopes });
    const condition = 'mcp.tool == "provider_request" && request.method == "POST"';
    await client(PolicyService).createPolicy({ policy: { ...holdPolicy, condition } });
    const held = { integration, path: "/drive/v3/files", method: "POST" };
    const inForce = () => callTool(all, "provider_request", held);
    await expect.poll(async () => (await inForce()).result.resultType, patient).toBe("input_required");
    const approve = async (link: string) => {
      expect(link).toContain(`${control}/ui/approvals?env=dev&approval=`);
      const id = new URL(link).searchParams.get("approval") ?? "";
      expect((await rest("POST", `/approvals/${id}/approve`, { key, body: {} })).status).toBe(200);
    };
    for (const [name, , command, era] of clients) {
      const given = { ...held, body: { name } };
      const env = { ERA: era, TOOL: "provider_request", ARGUMENTS: JSON.stringify(given), WAITS: "1" };
      const { links, result } = await run(all, command, env, approve);
      expect([name, links.length]).toEqual([name, 1]);
      expect(result.structuredContent).toMatchObject({ status: expect.any(Number) });
    }
  },
);

it.skipIf(lacks("clients"))(
  "shows the official clients of both eras the approval of a relayed server's tool, and sends their call once",
  { timeout: 120_000 },
  async () => {
    await refreshDashboard();
    const all = await peerAndSidecar(notion, { publicUrl: "", config: () => ({ dashboard: { enabled: true } }) });
    const { peer } = all;
    peer.answer = ({ id, method }, response) => result(response, id, answers[method] ?? {});
    await create(all);
    await connect(all);
    const { rest, client } = all.sidecar;
    const scopes = [Scope.APPROVALS_DECIDE];
    const { secret: key } = await client(EnvironmentService).createKey({ environment: "dev", scopes });
    await client(PolicyService).createPolicy({ policy: { ...holdPolicy, condition: 'mcp.tool == "pay"' } });
    const held = { method: "tools/call", params: { name: "pay", arguments: { amount: 0 } } };
    await expect.poll(async () => (await call(all, held)).body.error?.code, patient).toBe(-32_042);
    const approve = async (link: string) => {
      const id = new URL(link).searchParams.get("approval") ?? "";
      expect((await rest("POST", `/approvals/${id}/approve`, { key, body: {} })).status).toBe(200);
    };
    const official = clients.filter(([, need]) => need === "clients");
    for (const [at, [name, , command, era]] of official.entries()) {
      const amount = at + 1;
      const env = { ADDRESS: `${all.sidecar.data}/mcp/tools`, ERA: era, TOOL: "pay", WAITS: "1" };
      const found = await run(all, command, { ...env, ARGUMENTS: JSON.stringify({ amount }) }, approve);
      expect([name, found.links.length]).toEqual([name, 1]);
      expect(found.result.content).toEqual([{ type: "text", text: "paid" }]);
      const sent = peer
        .requestsTo("/mcp")
        .filter(({ body }) => body.replaceAll(" ", "").includes(`"amount":${amount}`));
      expect([name, sent.length]).toEqual([name, 1]);
    }
  },
);

const serverInfo = { name: "payments", version: "1" };
const common = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
const answers: Readonly<Record<string, object>> = {
  "server/discover": { ...common, supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, serverInfo },
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo },
  "tools/list": { ...common, tools: [{ name: "pay", inputSchema: { type: "object" } }] },
  "tools/call": { resultType: "complete", content: [{ type: "text", text: "paid" }] },
};
