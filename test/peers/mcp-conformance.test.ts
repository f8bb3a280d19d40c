import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { describeListener, listen } from "../../src/base/http/listener.ts";
import { connect } from "../cases/mcp/connected-peer.ts";
import { listeningPorts } from "../support/peers/listening-ports.ts";
import { secretKey, startTestSidecar, type TestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const clients = fileURLToPath(new URL("clients", import.meta.url));
const program = join(clients, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const publicUrl = "https://conformance-test.local";

/** A run of the suite, and the checks of it that are not green, each with the reason. */
interface SuiteChoice {
  readonly suite: string;
  readonly version?: string;
  readonly exceptions: Readonly<Record<string, readonly string[]>>;
}

/** The client is the URL of a document, as it should be: of Latchkey's own, while the suite knows only its own. */
const ownDocument = { "auth/basic-cimd": ["WARNING cimd-client-id-used"] };

const modern: SuiteChoice = { suite: "auth", version: "2026-07-28", exceptions: ownDocument };
/** Scenarios of the older era are the same, but for fewer. */
const older: readonly SuiteChoice[] = [
  { suite: "auth", version: "2025-11-25", exceptions: ownDocument },
  { suite: "backcompat", exceptions: {} },
];
const choices = process.env["LATCHKEY_TEST_CONFORMANCE"] === "all" ? [modern, ...older] : [modern];

interface ScenarioCall {
  readonly scenario: string;
  readonly url: string;
  readonly version: string;
  readonly context?: string;
}

/** Sidecars that may reach the ports of the suite, which are known once it runs. */
function sidecars() {
  let ports: readonly number[] = [];
  let current: Promise<TestSidecar> | undefined;
  return (pid: number): Promise<TestSidecar> => {
    const wanted = listeningPorts(pid);
    if (current !== undefined && wanted.every((port) => ports.includes(port))) return current;
    ports = wanted;
    const allowed = wanted.map((port) => `http://localhost:${port}`).join(",");
    current = startTestSidecar({ env: { LATCHKEY_ALLOW_PRIVATE: allowed, LATCHKEY_PUBLIC_URL: publicUrl } });
    return current;
  };
}

/** Creates the integration from the URL, connects an account and calls a tool. */
async function play(sidecar: TestSidecar, { scenario, url, version, context }: ScenarioCall): Promise<void> {
  const key = scenario.replaceAll(/[^a-z0-9-]/g, "-");
  const { client_id, client_secret } = context === undefined ? {} : JSON.parse(context);
  const client = client_secret === undefined ? {} : { credentials: { type: "OAUTH2", client_id, client_secret } };
  const created = await sidecar.rest("POST", "/integrations", { body: { unique_key: key, mcp_url: url, ...client } });
  if (created.status !== 200) throw new Error(JSON.stringify(created.body));
  const id = await connected(sidecar, key);
  await callTool(sidecar, { key, id, version });
}

/** Connects an account as a browser does. Returns the ID of the connection. */
async function connected(sidecar: TestSidecar, key: string, reconnect?: string): Promise<string> {
  const visit = async (address: string) => {
    const { status, headers } = await fetch(address, { redirect: "manual" });
    return { status, location: headers.get("location") ?? "" };
  };
  await connect({ sidecar, peer: { visit } }, { key, ...(reconnect !== undefined && { reconnect }) });
  const { connections } = (await sidecar.rest("GET", `/connections?integrationId=${key}`)).body;
  return connections[0].connection_id;
}

const modernVersion = "2026-07-28";
const info = { name: "conformance", version: "1" };
const modernMeta = {
  "io.modelcontextprotocol/protocolVersion": modernVersion,
  "io.modelcontextprotocol/clientInfo": info,
  "io.modelcontextprotocol/clientCapabilities": {},
};

interface ScenarioMessage {
  readonly method: string;
  readonly params: object;
  readonly name?: string;
}

const discovery: ScenarioMessage = { method: "server/discover", params: {} };
const initialization: ScenarioMessage = {
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: info },
};

interface ScenarioAccess {
  readonly key: string;
  readonly id: string;
  readonly version: string;
}

/** Initializes, lists and calls. A server that wants more scopes, or has another issuer, gets one more authorization. */
async function callTool(sidecar: TestSidecar, { key, id, version }: ScenarioAccess): Promise<void> {
  const send = async ({ method, params, name }: ScenarioMessage) => {
    const isModern = version >= modernVersion;
    const meta = isModern ? { _meta: modernMeta } : {};
    const named = { "mcp-method": method, ...(name !== undefined && { "mcp-name": name }) };
    const { status, body } = await fetch(`${sidecar.data}/mcp/${key}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${secretKey}`,
        "connection-id": id,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": version,
        ...(isModern && named),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, ...meta } }),
    });
    await body?.cancel();
    return status;
  };
  const called = { method: "tools/call", params: { name: "test-tool", arguments: {} }, name: "test-tool" };
  const steps = [version >= modernVersion ? discovery : initialization, { method: "tools/list", params: {} }, called];
  for (const message of steps) {
    let status = await send(message);
    // Once: a server that always wants more gets no further authorization.
    if (status === 401 || status === 403) {
      if (status === 401) await sidecar.rest("POST", `/integrations/${key}/discover`);
      await connected(sidecar, key, id);
      status = await send(message);
    }
    if (status !== 200) throw new Error(`${message.method} was answered ${status}`);
  }
}

interface SuiteRun {
  /** What is not green, by scenario. */
  readonly results: ReadonlyMap<string, readonly string[]>;
  readonly log: string;
}

/** Runs all scenarios of the suite, several at once. */
async function runSuite({ suite, version }: SuiteChoice): Promise<SuiteRun> {
  const output = await temporaryFolder();
  const sidecarFor = sidecars();
  const control = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const call = JSON.parse(Buffer.concat(parts).toString()) as ScenarioCall;
    const played = sidecarFor(child.pid ?? 0).then((sidecar) => play(sidecar, call));
    const body = await played
      .then(() => ({}))
      .catch((error: unknown) => ({
        failure: `${call.scenario}: ${String(error).slice(0, 300)}`,
      }));
    response.end(JSON.stringify(body));
  });
  await listen(control, { kind: "tcp", host: "127.0.0.1", port: 0 });
  onTestFinished(() => void control.close());
  const command = `${process.execPath} ${join(clients, "mcp-conformance.mjs")}`;
  const era = version === undefined ? [] : ["--spec-version", version];
  const options = ["client", "--command", command, "--suite", suite, ...era, "--timeout", "240000", "-o", output];
  const child = spawn(process.execPath, [program, ...options], {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], CONFORMANCE_TEST: describeListener(control, false) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (text: Buffer) => {
    log += text.toString();
  });
  onTestFinished(() => void child.kill());
  await new Promise((resolve) => child.once("close", resolve));
  return { results: resultsIn(output), log };
}

function resultsIn(folder: string): ReadonlyMap<string, readonly string[]> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((one) => one.endsWith("checks.json"));
  return new Map(
    files.map((file) => {
      const checks = JSON.parse(readFileSync(join(folder, file), "utf8")) as { id: string; status: string }[];
      const open = checks.filter(({ status }) => !["SUCCESS", "INFO", "SKIPPED"].includes(status));
      const name = relative(folder, join(folder, dirname(file))).replace(/-\d{4}-\d\d-\d\dT.*$/, "");
      return [name, open.map(({ id, status }) => `${status} ${id}`)];
    }),
  );
}

/** `LATCHKEY_TEST_CONFORMANCE=all` is the long form. */
it.skipIf(lacks("clients") || process.platform !== "linux").each(choices)(
  "passes the suite $suite of the official conformance tests as a client, $version",
  { timeout: 300_000 },
  async (choice) => {
    const { results, log } = await runSuite(choice);
    expect(results.size, log).toBeGreaterThan(1);
    const open = [...results].filter(([, checks]) => checks.length > 0);
    expect(Object.fromEntries(open), log).toEqual(choice.exceptions);
  },
);
