import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { startPlayedBroker } from "../../support/edges/played-broker.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { createIntegrations, secretKey, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { olderClient } from "../mcp-endpoint/older-client.ts";
import { asking, documents } from "../mcp-endpoint/served.ts";
import { writeScripts } from "../syncs/scripting.ts";

/** An edge whose other routes a real `serve` answers. */
async function start(env: Readonly<Record<string, string>> = {}) {
  const serve = await startTestSidecar({ env });
  await createIntegrations(serve);
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  broker.keys.set(secretKey, "service");
  const edge = await startTestEdge({ brokers: [broker.url], env: { LATCHKEY_BROKERS_DATA: serve.data } });
  const rest = (method: string, path: string, body?: unknown) =>
    fetch(`${edge.data}${path}`, {
      method,
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { serve, broker, edge, rest };
}

it("relays JSON routes, with bodies, statuses and faults", async () => {
  const { serve, edge, rest } = await start();
  const imported = await rest("POST", "/connections", {
    provider_config_key: "keyed",
    connection_id: "ada",
    credentials: { type: "API_KEY", apiKey: "k" },
  });
  expect(imported.status).toBe(201);
  const viaEdge = await (await rest("GET", "/connections/ada?provider_config_key=keyed")).json();
  expect(viaEdge).toEqual((await serve.rest("GET", "/connections/ada?provider_config_key=keyed")).body);
  expect(viaEdge).toMatchObject({ connection_id: "ada" });
  const missing = await rest("GET", "/connections/nobody?provider_config_key=keyed");
  const direct = await serve.rest("GET", "/connections/nobody?provider_config_key=keyed");
  expect([missing.status, missing.headers.get("latchkey-error")]).toEqual([404, direct.headers.get("latchkey-error")]);
  expect((await rest("DELETE", "/connections/ada?provider_config_key=keyed")).status).toBe(200);
  expect(await edge.metric('latchkey_edge_relayed_total{answer="2xx"}')).toBe(3);
});

it("relays messages of MCP clients, and the streams on which they are asked and told of changes", async () => {
  const folder = await temporaryFolder();
  writeScripts(folder, { "actions/ask.ts": asking, "syncs/documents.ts": documents }, "keyed");
  const { edge, rest } = await start({ LATCHKEY_SCRIPTS: folder });
  const listed = await rest("POST", "/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" });
  const { result } = (await listed.json()) as { result: { tools: { name: string }[] } };
  expect(result.tools.map(({ name }) => name)).toContain("provider_request");

  const connection = { provider_config_key: "keyed", connection_id: "ada" };
  await rest("POST", "/connections", { ...connection, credentials: { type: "API_KEY", apiKey: "k" } });
  const client = await olderClient(edge, { elicitation: {} });
  const call = await client.send({ id: 1, method: "tools/call", params: { name: "keyed_ask", arguments: {} } });
  const { id } = await call.next();
  expect((await client.reply(id, { result: { action: "accept", content: { word: "fig" } } })).status).toBe(202);
  expect((await call.next()).result.content[0].text).toBe("3");
  const stream = await client.open();
  const uri = "latchkey://records/keyed/Document";
  const subscribed = await client.send({ id: 2, method: "resources/subscribe", params: { uri } });
  expect(await subscribed.next()).toMatchObject({ id: 2, result: {} });
  await rest("POST", "/sync/trigger", { ...connection, syncs: ["documents"] });
  expect(await stream.next()).toMatchObject({ method: "notifications/resources/updated", params: { uri } });
});

it("refuses pages of other sites, and hosts that it does not serve", async () => {
  const { edge } = await start();
  const page = await fetch(`${edge.data}/connections`, { headers: { origin: "https://evil.example" } });
  expect([page.status, page.headers.get("latchkey-error")]).toEqual([403, "origin_not_allowed"]);
});

it("says that no broker answers, and what to do without one", async () => {
  const { serve, edge, rest } = await start();
  await serve.stop();
  const gone = await rest("GET", "/connections");
  expect([gone.status, gone.headers.get("latchkey-error")]).toEqual([503, "brokers_unavailable"]);
  const posted = await rest("POST", "/connections", {});
  expect([posted.status, posted.headers.get("latchkey-error")]).toEqual([503, "brokers_unavailable"]);
  expect((await edge.ready()).status).toBe(200);
});

it("serves only requests to providers when no data listener is configured", async () => {
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  const edge = await startTestEdge({ brokers: [broker.url] });
  const answer = await fetch(`${edge.data}/connections`);
  expect([answer.status, answer.headers.get("latchkey-error")]).toEqual([501, "not_implemented"]);
});

/** A data listener that answers as a test wants. */
async function startDataDoor(onRequest: Parameters<typeof createServer>[1]) {
  const server = createServer(onRequest);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

it("streams both ways, and goes to the next data listener when one is down", async () => {
  const door = await startDataDoor((request, response) => {
    response.writeHead(200, { "content-type": "text/plain", "set-cookie": ["a=1", "b=2"] });
    request.pipe(response);
  });
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  const edge = await startTestEdge({
    brokers: [broker.url],
    env: { LATCHKEY_BROKERS_DATA: `http://127.0.0.1:1,${door.url}` },
  });
  const big = "x".repeat(3_000_000);
  for (let i = 0; i < 4; i += 1) {
    const answer = await fetch(`${edge.data}/webhook/some`, { method: "POST", body: big });
    expect(answer.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect((await answer.text()).length).toBe(big.length);
  }
});

it("sends a body to another broker when the kept connection of the first one was just closed", async () => {
  const bodies: string[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    if (text !== "") bodies.push(text);
    response.end("{}");
  };
  const other = await startDataDoor(take);
  const closing = await startDataDoor(take);
  // As a broker that stops: it closes the connection in the moment in which the edge uses it again.
  for (const event of ["request", "checkContinue"]) {
    closing.server.prependListener(event, (request) => void (request.method === "POST" && request.socket.destroy()));
  }
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  const edge = await startTestEdge({
    brokers: [broker.url],
    env: { LATCHKEY_BROKERS_DATA: `${closing.url},${other.url}` },
  });
  for (let i = 0; i < 12; i += 1) {
    expect((await fetch(`${edge.data}/connections`)).status).toBe(200);
    expect((await fetch(`${edge.data}/connections`, { method: "POST", body: `body ${i}` })).status).toBe(200);
  }
  expect(bodies).toEqual(Array.from({ length: 12 }, (_, i) => `body ${i}`));
});

it("relays an answer that comes before the body, and sends a body that no broker has asked for", async () => {
  const door = await startDataDoor((_request, response) => void response.writeHead(413).end("too large"));
  door.server.on("checkContinue", (request, response: ServerResponse) => {
    if (request.url === "/early") response.writeHead(413).end("too large");
    else request.resume().on("end", () => response.end("read"));
  });
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  const edge = await startTestEdge({ brokers: [broker.url], env: { LATCHKEY_BROKERS_DATA: door.url } });
  for (let i = 0; i < 3; i += 1) {
    const early = await fetch(`${edge.data}/early`, { method: "POST", body: "x".repeat(10_000) });
    expect([early.status, await early.text()]).toEqual([413, "too large"]);
  }
  const silent = await fetch(`${edge.data}/silent`, { method: "POST", body: "text" });
  expect([silent.status, await silent.text()]).toEqual([200, "read"]);
});

it("relays requests over HTTP/2", async () => {
  const { edge } = await start();
  const session = await openSession(edge.data);
  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  const listed = await streamed(session, "/connections", { headers });
  expect([listed.status, JSON.parse(listed.body)]).toEqual([200, { connections: [] }]);
  const body = JSON.stringify({ unique_key: "second", provider: "example-api-key" });
  expect((await streamed(session, "/integrations", { headers, body })).status).toBe(200);
});

it("cuts off what a broker cuts off, and tells a broker when a caller leaves", async () => {
  const left = Promise.withResolvers<void>();
  const door = await startDataDoor((request: IncomingMessage, response) => {
    response.writeHead(200, { "content-length": "100" }).write("begun");
    if (request.url === "/cut") setImmediate(() => response.destroy());
    else response.once("close", () => left.resolve());
  });
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  const edge = await startTestEdge({ brokers: [broker.url], env: { LATCHKEY_BROKERS_DATA: door.url } });
  const cut = await fetch(`${edge.data}/cut`);
  await expect(cut.text()).rejects.toThrow();
  const leaving = new AbortController();
  const stays = await fetch(`${edge.data}/stays`, { signal: leaving.signal });
  expect(stays.status).toBe(200);
  leaving.abort();
  await left.promise;
});

it("joins the WebSocket of a page with a broker's", async () => {
  const door = await startDataDoor(undefined);
  door.server.on("upgrade", (request, socket) => {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n`);
    socket.pipe(socket);
    expect(request.headers["sec-websocket-key"]).toBe("dGhlIHNhbXBsZSBub25jZQ==");
  });
  const broker = await startPlayedBroker("http://127.0.0.1:1");
  const edge = await startTestEdge({ brokers: [broker.url], env: { LATCHKEY_BROKERS_DATA: door.url } });
  const { hostname, port, host } = new URL(edge.data);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  let text = "";
  socket.on("data", (bytes) => (text += bytes.toString()));
  socket.write(
    `GET / HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  );
  await expect.poll(() => text).toContain("101 Switching");
  socket.write("ping");
  await expect.poll(() => text).toContain("ping");
});
