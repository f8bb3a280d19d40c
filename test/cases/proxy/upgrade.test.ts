import { createHash } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { Integration_Reflection, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { apiKey, startProvider, startProxied } from "../../support/peers/provider.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { answersIn, head, openWire, statusOf } from "../../support/sidecar/door.ts";
import { isFastLane, secretKey, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { createAuthority, pem } from "../control-plane/certificates.ts";

/** WebSockets through the proxy, and every other upgrade that a client might try (P41). */

interface Handshake {
  readonly url: string | undefined;
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
}

/** A provider that speaks WebSocket, echoes everything, and accepts the subprotocol `chat`. */
async function startEcho() {
  const handshakes: Handshake[] = [];
  const sockets: Duplex[] = [];
  const server = http.createServer();
  const sessions = new WebSocketServer({ noServer: true, handleProtocols: () => "chat", perMessageDeflate: true });
  server.on("upgrade", (request, socket, early) => {
    handshakes.push({ url: request.url, rawHeaders: request.rawHeaders });
    sockets.push(socket);
    sessions.handleUpgrade(request, socket, early, (session) => {
      session.on("message", (data, isBinary) => session.send(data, { binary: isBinary }));
    });
  });
  sessions.on("headers", (headers) => headers.push("Set-Cookie: a=b", "X-Session: s1", "X-Session: s2", "Alt-Svc: h3"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions.clients) session.terminate();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, handshakes, sockets, sessions };
}

const inWs = (address: string) => address.replace("http:", "ws:");
const key = "dGhlIHNhbXBsZSBub25jZQ==";
const accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const asksForWebSocket = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  `Sec-WebSocket-Key: ${key}`,
  "Sec-WebSocket-Version: 13",
];
const accepted = head(
  "HTTP/1.1 101 Switching Protocols",
  "Upgrade: websocket",
  "Connection: Upgrade",
  `Sec-WebSocket-Accept: ${accept}`,
);

function asking(lines: string, ...more: readonly string[]): string {
  return head("GET /proxy/live HTTP/1.1", "Host: localhost", ...lines.trim().split("\r\n"), ...more);
}

const errorOf = (answer: string) => /^latchkey-error: (.*)\r$/im.exec(answer)?.[1];

it("P41 opens a WebSocket with the credentials attached, and nothing of latchkey's own", async () => {
  const echo = await startEcho();
  const { data, proxyHeaders, metric } = await startProxied(echo.port);
  const session = new WebSocket(`${inWs(data)}/proxy/live/1?since=%41&x?`, ["chat"], {
    headers: { ...proxyHeaders, "x-api-key": "mine", cookie: "c=d", "x-other": "kept" },
  });
  const upgraded = once(session, "upgrade");
  await once(session, "open");
  const [answer] = (await upgraded) as [http.IncomingMessage];

  expect(session.protocol).toBe("chat");
  session.send("hello");
  expect(String((await once(session, "message"))[0])).toBe("hello");
  const large = Buffer.alloc(3_000_000, 7);
  session.send(large);
  expect(large.equals((await once(session, "message"))[0])).toBe(true);

  const [handshake] = echo.handshakes;
  expect(handshake?.url).toBe("/live/1?since=%41&x?");
  const fields = handshake?.rawHeaders ?? [];
  const valuesOf = (name: string) => fields.filter((_, i) => i % 2 === 1 && fields[i - 1]?.toLowerCase() === name);
  expect(valuesOf("x-api-key")).toEqual([apiKey]);
  expect(valuesOf("x-other")).toEqual(["kept"]);
  expect(valuesOf("host")).toEqual([`127.0.0.1:${echo.port}`]);
  expect(valuesOf("via")).toEqual(["1.1 latchkey"]);
  expect(valuesOf("connection")).toEqual(["Upgrade"]);
  expect(valuesOf("upgrade")).toEqual(["websocket"]);
  for (const name of ["authorization", "provider-config-key", "connection-id", "cookie"]) {
    expect(valuesOf(name)).toEqual([]);
  }
  expect(fields.join()).not.toContain(secretKey);

  expect(answer.headers).toMatchObject({ "x-session": "s1, s2", via: "1.1 latchkey" });
  for (const name of ["set-cookie", "alt-svc", "latchkey-error"]) expect(answer.headers).not.toHaveProperty(name);
  expect(await metric("latchkey_proxy_open")).toBe(1);
  expect(await metric('latchkey_proxy_requests_total{credentials="apiKey",answer="1xx"}')).toBe(1);

  session.close(4_001, "enough");
  expect(await once(session, "close")).toEqual([4_001, Buffer.from("enough")]);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
  await expect.poll(() => metric('latchkey_http_requests_open{door="data"}')).toBe(0);
  expect(await metric('latchkey_http_requests_total{door="data",route="/proxy/*",status="101"}')).toBe(1);
});

it("sends a target to the provider byte for byte", async () => {
  const provider = await startProvider((_, socket) => socket.write(accepted));
  const { data, proxyLines } = await startProxied(provider.port);
  for (const target of ["/a?", "//b/", "/c;p=1/%2F{}\"<>`'|", "/?", "/d??x=%41&=&y"]) {
    const wire = await openWire(data);
    wire.send(asking(proxyLines, ...asksForWebSocket).replace("/live", target));
    await wire.until((text) => text.includes("\r\n\r\n"));
    expect(provider.connections.at(-1)?.received()).toMatch(`GET ${target} HTTP/1.1\r\n`);
    wire.socket.destroy();
  }
});

it("P41 judges a request for a WebSocket as any other", async () => {
  const provider = await startProvider();
  const { data, proxyLines } = await startProxied(provider.port);
  const say = async (bytes: string) => {
    const wire = await openWire(data);
    wire.send(bytes);
    return wire.ended;
  };
  const good = asking(proxyLines, ...asksForWebSocket);
  const keyLine = `authorization: Bearer ${secretKey}\r\n`;
  const cases: readonly (readonly [string, number, string])[] = [
    [good.replace(keyLine, ""), 401, "missing_auth_header"],
    [good.replace(secretKey, "lk_wrong"), 401, "unknown_key"],
    [good.replace("connection-id: ada", "connection-id: bob"), 404, "unknown_connection"],
    [good.replace("connection-id: ada\r\n", ""), 400, "invalid_headers"],
    [good.replace("/live", "/../admin"), 400, "invalid_path"],
    [good.replace("Host: localhost", "Host: evil.example"), 421, "misdirected_request"],
    [good.replace("Host: localhost", "Host: localhost\r\nOrigin: https://evil.example"), 403, "origin_not_allowed"],
    [
      good.replace("Host: localhost", "Host: localhost\r\nBase-Url-Override: https://evil.example"),
      403,
      "host_not_allowed",
    ],
    [good.replace("/proxy/live", "http://evil.example/live"), 403, "host_not_allowed"],
    [good.replace("Host: localhost", "Host: localhost\r\nConnection-Id: eve"), 400, "duplicate_header"],
    [good.replace(`Sec-WebSocket-Key: ${key}\r\n`, ""), 400, "malformed_request"],
    [good.replace(key, "short"), 400, "malformed_request"],
    [good.replace("Host: localhost", "Host: localhost\r\nContent-Length: 3"), 400, "malformed_request"],
    [good.replace("Host: localhost", "Host: localhost\r\nTransfer-Encoding: chunked"), 400, "malformed_request"],
    // Bytes after the head, before the response: for a provider that does not upgrade they would be another request.
    [`${good}GET /admin HTTP/1.1\r\nHost: a\r\n\r\n`, 400, "malformed_request"],
  ];
  for (const [bytes, status, code] of cases) {
    const answer = await say(bytes);
    expect([statusOf(answer), errorOf(answer)]).toEqual([status, code]);
  }
  expect(provider.connections).toHaveLength(0);
});

it.each([
  ["something else", ["Connection: upgrade", "Upgrade: TLS/1.0"], "GET", "1.1"],
  ["a choice of two", ["Connection: upgrade", "Upgrade: websocket, h2c"], "GET", "1.1"],
  ["a WebSocket by POST", asksForWebSocket, "POST", "1.1"],
  ["a WebSocket over HTTP/1.0", asksForWebSocket, "GET", "1.0"],
])("P41 refuses an upgrade to %s", async (_, lines, method, version) => {
  const provider = await startProvider();
  const { data, proxyLines } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(
    asking(proxyLines, ...lines)
      .replace("GET", method)
      .replace("HTTP/1.1", `HTTP/${version}`),
  );
  const answer = await wire.until((text) => text.includes("\r\n\r\n"));
  expect([statusOf(answer), errorOf(answer)]).toEqual([501, "not_implemented"]);
  // What follows is a request of its own, and is checked as one.
  if (version === "1.1") {
    wire.send(head("GET /proxy/smuggled HTTP/1.1", "Host: localhost"));
    const both = await wire.until((text) => answersIn(text) === 2);
    expect(both).toContain("HTTP/1.1 401 ");
  }
  wire.socket.destroy();
  expect(provider.connections).toHaveLength(0);
});

it("P41 treats an invalid upgrade as an ordinary request", async () => {
  const provider = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port);
  const offer = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"];
  for (const lines of [["Upgrade: h2c"], ["Connection: Upgrade"], offer]) {
    expect(statusOf(await raw(asking(proxyLines, ...lines)))).toBe(200);
  }
  expect(provider.received().toLowerCase()).not.toContain("upgrade");
});

it("ignores an upgrade requested of latchkey itself", async () => {
  const { raw, proxyLines } = await startProxied(1);
  const answer = await raw(asking(proxyLines, ...asksForWebSocket).replace("/proxy/live", "/connections"));
  expect(statusOf(answer)).toBe(200);
});

it("P41 keeps an upgrade separate from earlier requests on the same connection", async () => {
  const provider = await startProvider(() => {});
  const { data, proxyLines } = await startProxied(provider.port);
  for (const second of [
    asking(proxyLines, ...asksForWebSocket),
    "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
  ]) {
    const wire = await openWire(data);
    wire.send(asking(proxyLines) + second);
    // The general path cannot separate the two and closes the connection; on the fast path the second request waits.
    expect(await Promise.race([wire.ended, sleep(500, "waits")])).toBe(isFastLane ? "waits" : "");
    wire.socket.destroy();
  }
  expect(provider.received()).not.toContain("Sec-WebSocket-Key");
});

it.each([
  [
    "401",
    "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\nWWW-Authenticate: Bearer\r\nSet-Cookie: a=b\r\n\r\nnope",
    /nope$/,
  ],
  [
    "chunked",
    "HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n4\r\nnope\r\n0\r\nX-T: 1\r\n\r\n",
    /4\r\nnope\r\n0\r\n\r\n$/,
  ],
  ["no body", "HTTP/1.1 204 None\r\n\r\n", /\r\n\r\n$/],
  [
    "426",
    "HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n",
    /\r\n\r\n$/,
  ],
  ["a body that ends with the connection", "HTTP/1.1 200 OK\r\n\r\nall of it", /all of it\r\n0\r\n\r\n$/],
])("forwards the provider's other response (%s), and closes", async (_, said, expected) => {
  const provider = await startProvider((_request, socket) => {
    socket.write(said);
    if (said.includes("all of it")) socket.end();
  });
  const { data, proxyLines, metric } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect(answer).toMatch(/^HTTP\/1\.1 (401|403|204|426|200) /);
  expect(answer).toMatch(expected);
  expect(answer.toLowerCase()).toContain("\r\nconnection: close\r\n");
  for (const name of ["set-cookie", "trailer", "latchkey-error"])
    expect(answer.toLowerCase()).not.toContain(`\n${name}:`);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

it("rewrites a redirect of the provider's as for any other request", async () => {
  const provider = await startProvider((_, socket) => {
    socket.write(
      `HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:${provider.port}/elsewhere\r\nContent-Length: 0\r\n\r\n`,
    );
  });
  const { data, proxyLines } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  expect(await wire.ended).toContain("\r\nLocation: /proxy/elsewhere\r\n");
});

it.each([
  ["another accept", accepted.replace(accept, createHash("sha1").update("x").digest("base64"))],
  ["no accept", accepted.replace(/Sec-WebSocket-Accept.*\r\n/, "")],
  ["another protocol", accepted.replace("websocket", "h2c")],
  ["no protocol", accepted.replace("Upgrade: websocket\r\n", "")],
  ["a length", accepted.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello")],
  ["no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n"],
  ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"],
  ["a status that is none", "HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n"],
])("P41 opens no tunnel for an answer with %s", async (_, said) => {
  const provider = await startProvider((_request, socket) => void socket.write(said));
  const { data, proxyLines, metric } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([502, "provider_malformed"]);
  await expect.poll(() => provider.connections[0]?.socket.destroyed).toBe(true);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

it("hands on a 426 that names the protocol, and opens no tunnel for it", async () => {
  const body = "upgrade to something newer";
  const provider = await startProvider((_request, socket) => {
    socket.write(
      head(
        "HTTP/1.1 426 Upgrade Required",
        "Connection: Upgrade",
        "Upgrade: websocket",
        `Content-Length: ${body.length}`,
      ) + body,
    );
  });
  const { data, proxyLines } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect(statusOf(answer)).toBe(426);
  expect(answer).toMatch(/newer$/);
  expect(provider.connections).toHaveLength(1);
});

it("cuts an answer that the provider cuts, so that it looks like none that is whole", async () => {
  const provider = await startProvider((_request, socket) => {
    socket.write("HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nhalf");
    setTimeout(() => socket.resetAndDestroy(), 50);
  });
  const { data, proxyLines, metric } = await startProxied(provider.port);
  const request = http.get(`${data}/proxy/live`, { headers: linesOf(proxyLines, asksForWebSocket) });
  const [answer] = (await once(request, "response")) as [http.IncomingMessage];
  answer.resume();
  await expect(once(answer, "end")).rejects.toMatchObject({ code: "ECONNRESET" });
  await expect.poll(() => metric('latchkey_proxy_cut_total{by="provider"}')).toBe(1);
});

const linesOf = (...all: readonly (string | readonly string[])[]): Record<string, string> =>
  Object.fromEntries(
    all
      .flatMap((lines) => (typeof lines === "string" ? lines.trim().split("\r\n") : lines))
      .map((line) => line.split(": ", 2)),
  );

it("does not end the process over anything that happens to either side", async () => {
  const attempts = [
    (socket: Socket) => socket.resetAndDestroy(),
    (socket: Socket) => socket.end(),
    (socket: Socket) => socket.write(accepted, () => socket.resetAndDestroy()),
    (socket: Socket) => socket.write(accepted, () => socket.end()),
    (socket: Socket) =>
      socket.write(accepted.replace("Upgrade\r\n", "Upgrade\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n")),
    (socket: Socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTrailer: X\r\n\r\nok"),
    (socket: Socket) => socket.write("HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n".repeat(2_000), () => socket.destroy()),
  ];
  let round = 0;
  const provider = await startProvider((_request, socket) => void attempts[Math.floor(round / 3)]?.(socket));
  const { data, proxyLines, rest, metric } = await startProxied(provider.port);
  for (; round < attempts.length * 3; round += 1) {
    const wire = await openWire(data);
    wire.send(asking(proxyLines, ...asksForWebSocket));
    if (round % 3 === 0) await wire.ended;
    else if (round % 3 === 1) wire.socket.resetAndDestroy();
    else wire.socket.end();
  }
  expect((await rest("GET", "/connections")).status).toBe(200);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
  expect(await metric("latchkey_unhandled_errors_total")).toBe(0);
});

/** An open tunnel, by its two ends. */
async function openTunnel(options: Parameters<typeof startProxied>[1] = {}) {
  const provider = await startProvider((_request, socket) => void socket.write(accepted));
  const running = await startProxied(provider.port, options);
  const wire = await openWire(running.data);
  wire.send(asking(running.proxyLines, ...asksForWebSocket));
  await wire.until((text) => text.includes("\r\n\r\n"));
  const [there] = provider.connections;
  if (there === undefined) throw new Error("the tunnel leads nowhere");
  return { ...running, wire, there };
}

it.each([
  ["leaves", (socket: Socket) => socket.destroy()],
  ["breaks off", (socket: Socket) => socket.resetAndDestroy()],
  ["ends its side", (socket: Socket) => socket.end()],
])("P32 ends the provider's side when the caller %s", async (_, leave) => {
  const { wire, there, metric } = await openTunnel();
  const closed = once(there.socket, "close");
  const elapsed = startStopwatch();
  leave(wire.socket);
  await closed;
  expect(elapsed.ms).toBeLessThan(1_000);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

it.each([
  ["leaves", (socket: Socket) => socket.destroy()],
  ["breaks off", (socket: Socket) => socket.resetAndDestroy()],
  ["ends its side", (socket: Socket) => socket.end()],
])("P32 closes the caller's side when the provider %s, after its last bytes", async (_, leave) => {
  const { wire, there, metric } = await openTunnel();
  there.socket.write("last words");
  await wire.until((text) => text.endsWith("last words"));
  const elapsed = startStopwatch();
  leave(there.socket);
  expect(await wire.ended).toMatch(/last words$/);
  expect(elapsed.ms).toBeLessThan(1_000);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

it.each([
  ["leaves", (socket: Socket) => socket.destroy()],
  ["ends its side", (socket: Socket) => socket.end()],
])("P32 closes the provider's connection when the caller %s before the response", async (_, leave) => {
  const provider = await startProvider(() => {});
  const { data, proxyLines, metric } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  await expect.poll(() => provider.connections[0]?.requests()).toHaveLength(1);
  leave(wire.socket);
  await expect.poll(() => provider.connections[0]?.socket.destroyed).toBe(true);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

it("ends the caller's side though the caller would stay", async () => {
  const provider = await startProvider((_request, socket) => void socket.write(accepted));
  const { data, proxyLines, metric } = await startProxied(provider.port);
  const { port } = new URL(data);
  const staying = connect({ port: Number(port), host: "127.0.0.1", allowHalfOpen: true });
  onTestFinished(() => void staying.destroy());
  staying.write(asking(proxyLines, ...asksForWebSocket));
  await once(staying, "data");
  provider.connections[0]?.socket.destroy();
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

it.each([
  ["leaves", (socket: Socket) => socket.destroy()],
  ["breaks off", (socket: Socket) => socket.resetAndDestroy()],
])("ends the provider's side when the caller %s, though the provider would stay", async (_, leave) => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(accepted);
      const talking = setInterval(() => socket.write("."), 50);
      socket.once("close", () => clearInterval(talking));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { data, proxyLines } = await startProxied((server.address() as AddressInfo).port);
  const connected = once(server, "connection");
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const [there] = (await connected) as [Socket];
  await wire.until((text) => text.includes("\r\n\r\n"));
  leave(wire.socket);
  await expect.poll(() => there.destroyed).toBe(true);
});

it("P41 refuses bytes that a caller sends before the response", async () => {
  const provider = await startProvider(() => {});
  const { data, proxyLines } = await startProxied(provider.port);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  await expect.poll(() => provider.connections[0]?.requests()).toHaveLength(1);
  wire.send(head("GET /admin HTTP/1.1", "Host: a"));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([400, "malformed_request"]);
  await expect.poll(() => provider.connections[0]?.socket.destroyed).toBe(true);
  expect(provider.received()).not.toContain("/admin");
});

it("pauses a side that sends more than the other reads", async () => {
  const { wire, there } = await openTunnel();
  wire.socket.pause();
  let taken = 0;
  const piece = Buffer.alloc(1 << 20);
  const push = () => {
    while (taken < 256) {
      taken += 1;
      if (!there.socket.write(piece)) return void there.socket.once("drain", push);
    }
  };
  push();
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(taken).toBeLessThan(64);
});

const files = { "/etc/latchkey.yaml": "proxy: { connect_ms: 300, answer_ms: 400, idle_ms: 500 }" };
const impatient = { files, env: { LATCHKEY_CONFIG: "/etc/latchkey.yaml" } };

it("P25 closes a provider's connection that does not answer", async () => {
  const provider = await startProvider(() => {});
  const { data, proxyLines } = await startProxied(provider.port, impatient);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([504, "provider_timeout"]);
  await expect.poll(() => provider.connections[0]?.socket.destroyed).toBe(true);
});

it("closes idle tunnels, and no others", async () => {
  const { wire, there } = await openTunnel(impatient);
  const since = performance.now();
  // Traffic of one side keeps it open.
  for (let i = 0; i < 4; i += 1) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    there.socket.write("!");
  }
  expect(wire.socket.destroyed).toBe(false);
  expect(await wire.ended).toMatch(/!!!!$/);
  expect(performance.now() - since).toBeGreaterThan(1_400);
  await expect.poll(() => there.socket.destroyed).toBe(true);
});

it("P26 reports why the provider cannot be reached", async () => {
  const closed = await startProvider();
  const { data, proxyLines, metric } = await startProxied(1);
  expect(closed.connections).toHaveLength(0);
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([502, "provider_unreachable"]);
  expect(await metric('latchkey_proxy_refused_total{reason="provider_unreachable"}')).toBe(1);
});

it("opens no tunnel to a private address unless allowed", async () => {
  const provider = await startProvider();
  const { data, proxyLines } = await startProxied(provider.port, { env: { LATCHKEY_ALLOW_PRIVATE: "" } });
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([403, "host_not_allowed"]);
  expect(provider.connections).toHaveLength(0);
});

it("P21 judges the address that a name leads to when the tunnel is dialled", async () => {
  const provider = await startProvider();
  const { data, proxyLines } = await startProxied(provider.port, {
    provider: { proxy: { baseUrl: `https://api.example.com:${provider.port}` } },
    resolve: async () => [{ address: "127.0.0.1", family: 4 }],
  });
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([403, "host_not_allowed"]);
  expect(provider.connections).toHaveLength(0);
});

it("limits the tunnels to a host like its requests, and counts the open ones", async () => {
  const provider = await startProvider((_request, socket) => void socket.write(accepted));
  const { data, proxyLines } = await startProxied(provider.port, {
    files: { "/config": "proxy: { requests_per_host: 1 }" },
    env: { LATCHKEY_CONFIG: "/config" },
  });
  const open = async () => {
    const wire = await openWire(data);
    wire.send(asking(proxyLines, ...asksForWebSocket));
    return { wire, status: statusOf(await wire.until((text) => text.includes("\r\n\r\n"))) };
  };
  const first = await open();
  expect(first.status).toBe(101);
  expect((await open()).status).toBe(503);
  // Requests are counted apart.
  expect((await fetch(`${data}/proxy/x`, { headers: linesOf(proxyLines) }).catch(() => undefined))?.status).not.toBe(
    503,
  );
  first.wire.socket.destroy();
  await expect.poll(async () => (await open()).status).toBe(101);
});

it("opens no tunnel where answers are to be looked at", async () => {
  const provider = await startProvider();
  const { data, proxyLines, client } = await startProxied(provider.port);
  await client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "here", reflection: Integration_Reflection.MASK },
    updateMask: { paths: ["reflection"] },
  });
  const wire = await openWire(data);
  wire.send(asking(proxyLines, ...asksForWebSocket));
  const answer = await wire.ended;
  expect([statusOf(answer), errorOf(answer)]).toEqual([501, "not_implemented"]);
  expect(provider.connections).toHaveLength(0);
});

it("ends silent tunnels when it stops, and waits for one that is still in use", async () => {
  const provider = await startProvider((_request, socket) => void socket.write(accepted));
  const { data, proxyLines, stop } = await startProxied(provider.port, { env: { LATCHKEY_GRACE: "20s" } });
  const open = async () => {
    const wire = await openWire(data);
    wire.send(asking(proxyLines, ...asksForWebSocket));
    await wire.until((text) => text.includes("\r\n\r\n"));
    return wire;
  };
  const silent = await open();
  const busy = await open();
  const talking = setInterval(() => busy.send("."), 100);
  onTestFinished(() => clearInterval(talking));
  const elapsed = startStopwatch();
  const stopped = stop();
  await silent.ended;
  expect(elapsed.ms).toBeLessThan(5_000);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(busy.socket.destroyed).toBe(false);
  clearInterval(talking);
  await busy.ended;
  await stopped;
  expect(elapsed.ms).toBeLessThan(10_000);
});

it("P40 cuts a tunnel that does not fall silent when the grace period is over", async () => {
  const { wire, there, stop } = await openTunnel({ env: { LATCHKEY_GRACE: "1s" } });
  const talking = setInterval(() => there.socket.write("."), 100);
  onTestFinished(() => clearInterval(talking));
  const elapsed = startStopwatch();
  await stop();
  await wire.ended;
  expect(elapsed.ms).toBeLessThan(4_000);
  await expect.poll(() => there.socket.destroyed).toBe(true);
});

it("opens a tunnel for a caller that uses it as a forward proxy", async () => {
  const echo = await startEcho();
  const { data, proxyHeaders } = await startProxied(echo.port);
  const { authorization = "", ...others } = proxyHeaders;
  const { port } = new URL(data);
  const socket = connect(Number(port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const lines = Object.entries({ ...others, "proxy-authorization": authorization }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  socket.write(
    head(
      `GET https://127.0.0.1:${echo.port}/live HTTP/1.1`,
      `Host: 127.0.0.1:${echo.port}`,
      ...lines,
      ...asksForWebSocket,
    ),
  );
  const [said] = await once(socket, "data");
  expect(String(said)).toMatch(/^HTTP\/1\.1 101 /);
  expect(echo.handshakes[0]?.url).toBe("/live");
});

describe.skipIf(lacks("openssl"))("over TLS", () => {
  async function startTls(names: string) {
    const folder = await temporaryFolder();
    const ca = createAuthority(folder, "ca");
    const { cert, key: own } = ca.issue("provider", { names });
    const provider = await startProvider((_request, socket) => void socket.write(accepted), {
      cert: pem(cert),
      key: pem(own),
    });
    return { provider, ca: pem(ca.cert).toString(), cert: pem(cert).toString(), own: pem(own).toString() };
  }

  it("opens a tunnel to a provider whose certificate is trusted", async () => {
    const { provider, ca } = await startTls("IP:127.0.0.1");
    const { data, proxyLines } = await startProxied(provider.port, {
      isTls: true,
      files: { "/ca": ca },
      env: { LATCHKEY_PROVIDER_CA: "/ca" },
    });
    const wire = await openWire(data);
    wire.send(asking(proxyLines, ...asksForWebSocket));
    expect(statusOf(await wire.until((text) => text.includes("\r\n\r\n")))).toBe(101);
    expect(provider.received()).toContain(`x-api-key: ${apiKey}\r\n`);
    const closed = once(provider.connections[0]?.socket ?? wire.socket, "close");
    wire.socket.destroy();
    await closed;
  });

  it.each([
    ["nobody trusts", "IP:127.0.0.1", false],
    ["was issued to another", "IP:127.0.0.2,DNS:localhost", true],
  ])("P26 sends nothing to a provider whose certificate %s", async (_, names, isTrusted) => {
    const { provider, ca } = await startTls(names);
    const { data, proxyLines } = await startProxied(provider.port, {
      isTls: true,
      ...(isTrusted ? { files: { "/ca": ca }, env: { LATCHKEY_PROVIDER_CA: "/ca" } } : {}),
    });
    const wire = await openWire(data);
    wire.send(asking(proxyLines, ...asksForWebSocket));
    const answer = await wire.ended;
    expect([statusOf(answer), errorOf(answer)]).toEqual([502, "provider_untrusted"]);
    expect(provider.received()).toBe("");
  });

  it("opens a tunnel for a caller that comes over TLS", async () => {
    const { ca, cert, own } = await startTls("IP:127.0.0.1");
    const echo = await startEcho();
    const folder = await temporaryFolder();
    const { proxyHeaders, stop } = await startProxied(echo.port, { folder });
    await stop();
    const { sidecar } = await startTestSidecar({
      folder,
      files: { "/config": "tls: { data: { cert: /cert, key: /key } }", "/cert": cert, "/key": own },
      env: { LATCHKEY_CONFIG: "/config", LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${echo.port}` },
    });
    const address = sidecar.addresses.data?.replace("https:", "wss:");
    const session = new WebSocket(`${address}/proxy/live`, { ca, headers: proxyHeaders });
    await once(session, "open");
    session.send("hello");
    expect(String((await once(session, "message"))[0])).toBe("hello");
    session.terminate();
    await expect.poll(() => echo.sockets[0]?.destroyed).toBe(true);
  });
});
