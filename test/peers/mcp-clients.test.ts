import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import Provider from "oidc-provider";
import { expect, it, onTestFinished } from "vitest";
import { describeListener, listen } from "../../src/base/http/listener.ts";
import { connectionsOf } from "../cases/mcp/connected-peer.ts";
import { createTestBrowser, type Page, type TestBrowser } from "../support/sidecar/connecting.ts";
import { secretKey, startTestSidecar } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const answers: Readonly<Record<string, (params: object) => object>> = {
  "server/discover": () => ({
    resultType: "complete",
    supportedVersions: ["2026-07-28"],
    capabilities: { tools: {} },
    serverInfo: { name: "pages", version: "1" },
    ttlMs: 0,
    cacheScope: "private",
  }),
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "pages", version: "1" },
  }),
  "tools/list": () => ({
    resultType: "complete",
    tools: ["read_page", "delete_page"].map((name) => ({ name, inputSchema: { type: "object" } })),
    ttlMs: 0,
    cacheScope: "private",
  }),
  "tools/call": (params) => ({ resultType: "complete", content: [{ type: "text", text: JSON.stringify(params) }] }),
};

/** An MCP server whose tokens an independent authorization server issues, to clients that register themselves. */
async function startServer() {
  const server = createServer();
  await listen(server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  const origin = describeListener(server, false);
  const resource = `${origin}/mcp`;
  const headers: Record<string, string | string[] | undefined>[] = [];
  const provider = new Provider(origin, {
    pkce: { required: () => true },
    scopes: ["openid", "offline_access", "pages"],
    clientDefaults: { grant_types: ["authorization_code", "refresh_token"] },
    issueRefreshToken: async () => true,
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: async () => true,
        getResourceServerInfo: async () => ({ scope: "pages", accessTokenFormat: "opaque" }),
      },
    },
  });
  const metadata = { resource, authorization_servers: [origin], scopes_supported: ["pages"] };
  const prm = "/.well-known/oauth-protected-resource/mcp";
  const callback = provider.callback();
  /** The answer that a stream broke off before. */
  let broken: object = {};
  const repeated = (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`id: repeated\ndata: ${JSON.stringify(broken)}\n\n`);
  };
  server.on("request", async (request, response) => {
    if (request.url === prm) {
      response.setHeader("content-type", "application/json").end(JSON.stringify(metadata));
    } else if (request.url !== "/mcp") callback(request, response);
    else {
      const token = await provider.AccessToken.find((request.headers.authorization ?? "").replace("Bearer ", ""));
      if (token?.aud !== resource) {
        response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${origin}${prm}"` }).end();
        return;
      }
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => void parts.push(part));
      // A refused message breaks off, and has no end.
      await once(request, "end").catch(() => {});
      if (!request.complete) return;
      const message = JSON.parse(Buffer.concat(parts).toString() || "{}");
      headers.push(request.headers);
      const answer = answers[message.method];
      const resumes = request.headers["last-event-id"] === "cut-off";
      if (request.method === "GET" && resumes) repeated(response);
      else if (request.method !== "POST") response.writeHead(405).end();
      else if (answer === undefined) response.writeHead(202).end();
      else {
        // Events, as many servers send them for every answer.
        response.writeHead(200, { "content-type": "text/event-stream" });
        const result = answer(message.params ?? {});
        const isOlder = request.headers["mcp-protocol-version"] === "2025-11-25";
        if (
          isOlder &&
          message.method === "tools/call" &&
          request.headers["user-agent"]?.startsWith("Python") === true
        ) {
          broken = { jsonrpc: "2.0", id: message.id, result };
          response.end("id: cut-off\ndata: \n\n");
          return;
        }
        response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, result })}\n\n`);
      }
    }
  });
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return { origin, url: resource, headers };
}

/** Signs in and agrees, as the pages ask for it, until the browser is sent back. */
async function agreed(browser: TestBrowser, first: Page, publicUrl: string): Promise<string> {
  let page = first;
  for (let i = 0; i < 5; i += 1) {
    const [, action = ""] = /action="([^"]+)"/.exec(page.text) ?? [];
    const [, prompt = ""] = /name="prompt" value="([^"]+)"/.exec(page.text) ?? [];
    const response = await browser.post(action, new URLSearchParams({ prompt, login: "ada", password: "x" }));
    const arrived = await browser.toward(new URL(response.headers.get("location") ?? "", action).href, publicUrl);
    if (typeof arrived === "string") return arrived;
    page = arrived;
  }
  throw new Error("the pages have no end");
}

const program = fileURLToPath(new URL("clients/mcp.mjs", import.meta.url));
const rawProgram = fileURLToPath(new URL("clients/mcp_relayed.py", import.meta.url));

function runClients(
  env: Readonly<Record<string, string>>,
  command = process.execPath,
  file = program,
): Promise<{ readonly text: string; readonly errors: string }> {
  const whole = { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env };
  return new Promise((resolve) =>
    execFile(command, [file], { env: whole, timeout: 60_000 }, (_, text, errors) => resolve({ text, errors })),
  );
}

it.skipIf(lacks("clients"))(
  "serves the official clients of both eras, after a connect at an authorization server that registered us",
  { timeout: 120_000 },
  async () => {
    const server = await startServer();
    const sidecar = await startTestSidecar({ env: { LATCHKEY_ALLOW_PRIVATE: server.origin } });
    const created = await sidecar.rest("POST", "/integrations", { body: { unique_key: "pages", mcp_url: server.url } });
    expect([created.status, created.body]).toEqual([200, expect.anything()]);
    const { body } = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
    const browser = createTestBrowser();
    const departure = `${sidecar.data}/oauth/connect/pages?connect_session_token=${body.data.token}`;
    const back = await agreed(browser, await browser.go(departure), `${sidecar.data}/oauth/callback`);
    expect((await browser.go(back)).text).toContain("is connected");
    const [{ connection_id: id = "" } = {}] = await connectionsOf({ sidecar });

    const env = { ADDRESS: `${sidecar.data}/mcp/pages`, KEY: secretKey, CONNECTION: id };
    const { text, errors } = await runClients(env);
    expect(errors).toBe("");
    const { older, modern } = JSON.parse(text);
    for (const one of [older, modern]) {
      expect(one.tools).toEqual(["read_page", "delete_page"]);
      expect(JSON.parse(one.text)).toMatchObject({ name: "read_page", arguments: { id: "p1", text: "Tee & ü" } });
    }
    const versions = new Set(server.headers.map((one) => one["mcp-protocol-version"]));
    expect(versions).toContain("2026-07-28");
    expect(server.headers.some((one) => one["mcp-name"] === "read_page")).toBe(true);
    expect(JSON.stringify(server.headers)).not.toContain(secretKey);

    const limits = { connections: [{ integration: "pages", id }], tools: ["read_*"] };
    const { body: session } = await sidecar.rest("POST", "/access-sessions", { body: { limits } });
    for (const era of lacks("python") ? [] : ["2025-11-25", "2026-07-28"]) {
      const run = await runClients({ ...env, KEY: session.data.token, ERA: era }, "python3", rawProgram);
      expect(run.errors).toBe("");
      const { tools, called, refused } = JSON.parse(run.text);
      expect(tools).toEqual(["read_page"]);
      expect(JSON.parse(called.result.content[0].text).arguments).toEqual({ id: "p1", text: "Tee & ü" });
      expect(called.resumedAfter).toBe(era === "2025-11-25" ? "cut-off" : undefined);
      expect(refused).toMatchObject([403, { id: 4, error: { code: -32602, data: { code: "not_in_session" } } }]);
    }

    const refreshed = await sidecar.rest("GET", `/connections/${id}?provider_config_key=pages&force_refresh=true`);
    expect([refreshed.status, refreshed.body.error]).toEqual([200, undefined]);
    expect((await runClients(env)).errors).toBe("");
  },
);
