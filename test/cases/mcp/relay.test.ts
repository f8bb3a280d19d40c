import { mkdtemp, rm } from "node:fs/promises";
import { connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { result, startMcpPeer } from "../../support/peers/mcp-peer.ts";
import { notion } from "../../support/peers/mcp-vendors.ts";
import { secretKey, startUnmanaged } from "../../support/sidecar/harness.ts";
import { call, connect, connectionsOf, create, type PeerAndSidecar, toLoopback } from "./connected-peer.ts";

const modern = (method: string, name?: string) => ({
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": method,
  ...(name === undefined ? {} : { "mcp-name": name }),
});
const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };

let all: PeerAndSidecar;
let id = "";
let folder = "";

beforeAll(async () => {
  const peer = await startMcpPeer(notion);
  folder = await mkdtemp(join(tmpdir(), "latchkey-test-"));
  const env = { LATCHKEY_ALLOW_PRIVATE: peer.allowed() };
  all = { peer, sidecar: await startUnmanaged({ folder, env, resolve: toLoopback }) };
  await create(all);
  await connect(all);
  [{ connection_id: id = "" } = {}] = await connectionsOf(all);
});

afterAll(async () => {
  await all.sidecar.stop();
  await all.peer.close();
  await rm(folder, { recursive: true, force: true });
});

/** Sends bytes, and returns what is answered until the connection closes or the answer has this text. */
const sent = (head: readonly string[], body: string, until: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = dial(Number(new URL(all.sidecar.data).port), "127.0.0.1");
    let received = "";
    socket.on("data", (bytes) => {
      received += bytes.toString();
      if (received.includes(until)) socket.destroy();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(received));
    const lines = ["POST /mcp/tools HTTP/1.1", `Authorization: Bearer ${secretKey}`, ...head];
    socket.write(`${lines.join("\r\n")}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  });

/** The messages that reached the server. */
const arrived = () => all.peer.requestsTo("/mcp").filter(({ headers }) => headers.authorization !== undefined);

describe("a request to /mcp/<integration>", () => {
  it("reaches the endpoint with the connection's token, and nothing of the caller's key", async () => {
    const listed = await call(all, { method: "tools/list" });
    expect(listed).toMatchObject({ status: 200, body: { result: { tools: [{ name: "echo" }] } } });
    const last = arrived().at(-1);
    expect([last?.url, last?.method]).toEqual(["https://mcp.notion.com/mcp", "POST"]);
    expect(last?.headers.authorization).toMatch(/^Bearer at-/);
    expect(JSON.stringify(last)).not.toContain(secretKey);
  });

  it("keeps sessions, versions and event ids of the older era", async () => {
    const { answer } = all.peer;
    all.peer.answer = (message, response, { headers, method }) => {
      response.setHeader("mcp-session-id", "session-1");
      result(response, message.id, { method, session: headers["mcp-session-id"], event: headers["last-event-id"] });
    };
    const session = { "mcp-session-id": "session-1", "mcp-protocol-version": "2025-11-25" };
    const posted = await call(all, { method: "ping" }, { headers: session });
    expect([posted.headers.get("mcp-session-id"), posted.body.result.session]).toEqual(["session-1", "session-1"]);
    const opened = await all.sidecar.rest("GET", "/mcp/tools", { headers: { ...session, "last-event-id": "7" } });
    expect(opened.body.result).toEqual({ method: "GET", session: "session-1", event: "7" });
    const ended = await all.sidecar.rest("DELETE", "/mcp/tools", { headers: session });
    expect(ended.body.result).toMatchObject({ method: "DELETE" });
    all.peer.answer = answer;
  });

  it("needs a connection if there is a choice, and takes the one that a limited key names", async () => {
    const second = {
      connection_id: "second",
      provider_config_key: "tools",
      credentials: { type: "OAUTH2", access_token: "at-none" },
    };
    expect((await all.sidecar.rest("POST", "/connections", { body: second })).status).toBe(201);
    await expect.poll(async () => (await call(all, { method: "ping" })).body.error?.message).toContain("Connection-Id");
    const named = await call(all, { method: "tools/list" }, { headers: { "connection-id": id } });
    expect(named.status).toBe(200);
    const limits = { connections: [{ integration: "tools", id }] };
    const { secret } = await all.sidecar.client(EnvironmentService).createKey({ environment: "dev", limits });
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    expect((await all.sidecar.rest("POST", "/mcp/tools", { body: ping, key: secret })).status).toBe(200);
    const other = await all.sidecar.rest("POST", "/mcp/tools", {
      body: ping,
      key: secret,
      headers: { "connection-id": "second" },
    });
    expect(other).toMatchObject({ status: 403, body: { error: { code: "not_in_session" } } });
    expect(await all.sidecar.rest("POST", "/mcp/others", { body: ping, key: secret })).toMatchObject({ status: 403 });
    await all.sidecar.rest("DELETE", "/connections/second?provider_config_key=tools");
    await expect.poll(async () => (await call(all, { method: "ping" })).status).toBe(200);
  });

  it("is refused by pages of other sites and other names, with another method, and at another path", async () => {
    const before = arrived().length;
    const foreign = await call(all, { method: "ping" }, { headers: { origin: "https://evil.example.com" } });
    expect(foreign.status).toBe(403);
    expect(await sent(["Host: evil.example.com"], "{}", "}")).toContain("HTTP/1.1 421");
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    const through = { "provider-config-key": "tools", "connection-id": id };
    expect(await all.sidecar.rest("PUT", "/mcp/tools", { body: ping })).toMatchObject({ status: 405 });
    for (const path of ["/mcp/tools/x", "/mcp/tools?a=b", "/mcp/tools%2Fx"]) {
      expect([400, 404]).toContain((await all.sidecar.rest("POST", path, { body: ping })).status);
    }
    for (const path of ["/proxy/", "/proxy/mcp/", "/proxy/mcp/x", "/proxy/register", "/proxy//mcp", "/proxy/mcp?x=1"]) {
      const answer = await all.sidecar.rest("POST", path, { body: ping, headers: through });
      expect([path, answer.status, answer.body.error.code]).toEqual([path, 400, "invalid_path"]);
    }
    expect(arrived().length).toBe(before);
    expect(await all.sidecar.rest("POST", "/proxy/mcp", { body: ping, headers: through })).toMatchObject({
      status: 200,
    });
  });
});

describe("a message whose headers say something else", () => {
  const toolCall = { method: "tools/call", params: { name: "read_page", arguments: { id: 1 }, _meta: meta } };

  it("is refused by -32020 on every way, and one whose headers agree passes", async () => {
    const before = arrived().length;
    const through = { "provider-config-key": "tools", "connection-id": id };
    for (const headers of [
      modern("tools/call", "delete_page"),
      modern("tools/list", "read_page"),
      modern("tools/call"),
      { ...modern("tools/call", "read_page"), "mcp-protocol-version": "2027-01-01" },
      { "mcp-method": "tools/list" },
    ]) {
      const direct = await call(all, toolCall, { headers });
      expect(direct).toMatchObject({ status: 400, body: { jsonrpc: "2.0", id: 1, error: { code: -32020 } } });
      expect(direct.headers.get("latchkey-error")).toBe("header_mismatch");
      const body = { jsonrpc: "2.0", id: "a", ...toolCall };
      const proxied = await all.sidecar.rest("POST", "/proxy/mcp", { body, headers: { ...through, ...headers } });
      expect(proxied).toMatchObject({ status: 400, body: { id: "a", error: { code: -32020 } } });
    }
    expect(arrived().length).toBe(before);
    const agreed = await call(all, toolCall, { headers: modern("tools/call", "read_page") });
    expect(agreed).toMatchObject({ status: 200, body: { result: { content: [{ type: "text" }] } } });
    expect(arrived().at(-1)?.headers).toMatchObject(modern("tools/call", "read_page"));
  });

  it("is refused if it is no single plain message", async () => {
    const before = arrived().length;
    for (const body of ['[{"jsonrpc":"2.0"}]', '{"method":"a","method":"b"}', '{"method":"a"', "", "{}x"]) {
      const headers = { "content-type": "application/json" };
      const answer = await all.sidecar.rest("POST", "/mcp/tools", { body, headers });
      expect([body, answer.status, answer.body.error.code]).toEqual([body, 400, -32600]);
    }
    const packed = await call(all, { method: "ping" }, { headers: { "content-encoding": "gzip" } });
    expect(packed).toMatchObject({ status: 400, body: { error: { code: -32600 } } });
    expect(arrived().length).toBe(before);
  });

  it("never arrives whole, though its beginning was sent while the rest was still on its way", async () => {
    const before = arrived().length;
    const text = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { arguments: { text: "x".repeat(3_000_000) }, name: "read_page", _meta: meta },
    });
    const fields = Object.entries(modern("tools/call", "delete_page")).map((pair) => pair.join(": "));
    const answer = await sent([`Host: ${new URL(all.sidecar.data).host}`, ...fields], text, "-32020");
    expect(answer).toContain("HTTP/1.1 400");
    expect(arrived().length).toBe(before);
  });
});

describe("an event stream", () => {
  it("of 2,000 events passes as it comes, each before the next is sent", async () => {
    const { answer } = all.peer;
    let waiting: (() => void) | undefined;
    const taken = () => {
      waiting?.();
      waiting = undefined;
    };
    all.peer.answer = async (message, response) => {
      response.writeHead(200, { "content-type": "text/event-stream", "x-accel-buffering": "no" });
      for (let i = 0; i < 2_000; i += 1) {
        const seen = new Promise<void>((resolve) => {
          waiting = resolve;
        });
        response.write(
          `id: ${i}\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":${i}}}\n\n`,
        );
        // A relay that waits for more than one event would wait for ever.
        await seen;
      }
      response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, result: {} })}\n\n`);
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "slow" } });
    const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
    const response = await fetch(`${all.sidecar.data}/mcp/tools`, { method: "POST", headers, body });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    let text = "";
    let count = 0;
    for await (const part of response.body ?? []) {
      text += Buffer.from(part).toString();
      const now = text.split("\n\n").length - 1;
      for (; count < now; count += 1) taken();
    }
    expect(count).toBe(2_001);
    expect(text.match(/^id: \d+$/gm)?.map((line) => Number(line.slice(4)))).toEqual([...Array(2_000).keys()]);
    all.peer.answer = answer;
  });
});

describe("a server that wants further scopes", () => {
  it("is heard: the connection says so, and its next authorization asks for them", async () => {
    const { answer } = all.peer;
    all.peer.answer = (_, response) => {
      const challenge = 'Bearer error="insufficient_scope", scope="pages:write"';
      response.writeHead(403, { "www-authenticate": challenge }).end();
    };
    const refused = await call(all, { method: "tools/call", params: { name: "write_page" } });
    expect(refused.status).toBe(403);
    const ref = { environment: "dev", integration: "tools", id };
    const shown = async () => (await all.sidecar.client(ConnectionService).getConnection({ ref })).connection;
    await expect.poll(async () => (await shown())?.stateReason).toBe("insufficient_scope");
    expect(await shown()).toMatchObject({ state: 1, missingScopes: ["pages:write"] });
    all.peer.answer = answer;
    const asked = await connect(all, { reconnect: id });
    expect(asked.get("scope")?.split(" ")).toEqual(expect.arrayContaining(["default", "pages:write"]));
    expect(await shown()).toMatchObject({ state: 1, stateReason: "" });
  });
});
