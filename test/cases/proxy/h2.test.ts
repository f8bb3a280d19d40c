import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { ClientGone, readBody } from "../../../src/data-plane/server/body.ts";
import { createCallerSessions } from "../../../src/relay/http2/callers/caller-sessions.ts";
import type { StreamRequest } from "../../../src/relay/http2/stream-front.ts";
import { echo, startFramesProvider, startHttp2Provider } from "../../support/peers/http2-provider.ts";
import { type Answering, apiKey, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { answerOf, openSession, streamed } from "../../support/wire/http2-call.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";
import { createAuthority, pem } from "../control-plane/certificates.ts";
import { flags, frame, literal, uint32 } from "../control-plane/frames.ts";

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants;
const mib = 1024 * 1024;

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

/** A provider whose description says HTTP/2 without TLS. */
const byPriorKnowledge = (port: number): Options => ({
  provider: { proxy: { baseUrl: `https://127.0.0.1:${port}`, http2Only: true } },
});

describe("a caller over HTTP/2, and a provider that speaks HTTP/1.1", () => {
  async function connected(answer: Answering = ok, options: Options = {}) {
    const provider = await startProvider(answer);
    const running = await startProxied(provider.port, options);
    const session = await openSession(running.data);
    const say = (path: string, more: Parameters<typeof streamed>[2] = {}) =>
      streamed(session, path, { ...more, headers: { ...running.proxyHeaders, ...more.headers } });
    return { ...running, provider, session, say };
  }

  it("forwards requests by the rules of HTTP/1.1", async () => {
    const { say, provider } = await connected();
    const answer = await say("/proxy/a%2Fb?x=%41&y", {
      headers: { "nango-proxy-x-own": "1", cookie: "a=b", "x-forwarded-for": "10.0.0.1", accept: "text/plain" },
    });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body)).toEqual({ line: "GET /a%2Fb?x=%41&y HTTP/1.1", body: "" });
    expect(answer.headers.via).toBe("1.1 latchkey");
    expect(answer.headers.vary).toContain("Connection-Id");
    const [request] = provider.connections[0]?.requests() ?? [];
    expect(request?.fields).toEqual([
      ["host", `127.0.0.1:${provider.port}`],
      ["accept", "text/plain"],
      ["x-own", "1"],
      ["x-api-key", apiKey],
      ["via", "2 latchkey"],
    ]);
  });

  it("sends bodies with their length, or chunked without one", async () => {
    const { say, provider } = await connected();
    const body = "b".repeat(300_000);
    const said = await say("/proxy/up", { body, headers: { "content-length": String(body.length) } });
    expect(JSON.parse(said.body)).toEqual({ line: "POST /up HTTP/1.1", body });
    const inChunks = await say("/proxy/up", { body });
    expect(JSON.parse(inChunks.body)).toEqual({ line: "POST /up HTTP/1.1", body });
    const [first, second] = provider.connections[0]?.requests() ?? [];
    expect(first?.fields).toContainEqual(["content-length", "300000"]);
    expect(second?.fields).toContainEqual(["transfer-encoding", "chunked"]);
    const nothing = await say("/proxy/none", { body: "", headers: { "content-length": "0" } });
    expect(JSON.parse(nothing.body)).toEqual({ line: "POST /none HTTP/1.1", body: "" });
  });

  it("passes on every value of a field, answers without a body, and trailers", async () => {
    const { say } = await connected((request, socket) => {
      if (request.line.includes("/many"))
        socket.write(
          "HTTP/1.1 200 Fine\r\nX-Two: a\r\nX-Two: b\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nhi",
        );
      else if (request.line.includes("/none")) socket.write("HTTP/1.1 204 No\r\n\r\n");
      else if (request.line.includes("/settings"))
        socket.write(
          "HTTP/1.1 200 OK\r\nHTTP2-Settings: AAA\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nKeep-Alive: x\r\n\r\n",
        );
      else if (request.line.includes("/odd")) socket.write("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n");
      else if (request.line.startsWith("HEAD")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
      else
        socket.write(
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 42\r\nAuthorization: no\r\n\r\n",
        );
    });
    const many = await say("/proxy/many");
    expect(many.rawHeaders.filter((_, i) => many.rawHeaders[i - 1] === "x-two")).toEqual(["a", "b"]);
    expect([many.body, many.headers["content-length"], many.headers["x-hop"]]).toEqual(["hi", "2", undefined]);
    expect(await say("/proxy/none")).toMatchObject({ status: 204, body: "", code: 0 });
    const head = await say("/proxy/head", { headers: { ":method": "HEAD" } });
    expect([head.status, head.headers["content-length"], head.body]).toEqual([200, "9", ""]);
    const trailed = await say("/proxy/trailed");
    expect([trailed.body, { ...trailed.trailers }["x-sum"], trailed.trailers.authorization]).toEqual([
      "hi",
      "42",
      undefined,
    ]);
    const settings = await say("/proxy/settings");
    expect([settings.status, settings.headers["http2-settings"], settings.body]).toEqual([200, undefined, "hi"]);
    expect(settings.trailers["keep-alive"]).toBeUndefined();
    const odd = await say("/proxy/odd");
    expect([odd.status, odd.headers["latchkey-error"]]).toEqual([502, "provider_malformed"]);
  });

  it("forwards request trailers in chunks, and refuses requests that would lose them", async () => {
    const { say, provider } = await connected();
    const trailers = { "x-sum": "42", "latchkey-own": "1" };
    expect((await say("/proxy/up", { body: "hi", trailers })).status).toBe(200);
    expect(provider.received()).toContain("0\r\nx-sum: 42\r\n\r\n");
    const refused = await say("/proxy/up", { body: "hi", trailers, headers: { "content-length": "2" } });
    expect([refused.status, refused.headers["latchkey-error"]]).toEqual([502, "http2_required"]);
  });

  it("answers 100-continue, and refuses other expectations", async () => {
    const { session, proxyHeaders, say } = await connected();
    const headers = { ...proxyHeaders, ":path": "/proxy/up", ":method": "POST", expect: "100-continue" };
    const stream = session.request(headers);
    await once(stream, "continue");
    stream.end("hello");
    expect(JSON.parse((await answerOf(stream)).body).body).toBe("hello");
    const odd = await say("/proxy/x", { body: "x", headers: { expect: "the-moon" } });
    expect([odd.status, odd.headers["latchkey-error"]]).toEqual([400, "invalid_headers"]);
  });

  it("never makes a truncated response look complete", async () => {
    const { say, metric } = await connected((_, socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
      setTimeout(() => socket.destroy(), 50);
    });
    expect(await say("/proxy/x")).toMatchObject({ status: 200, code: NGHTTP2_INTERNAL_ERROR });
    expect(await metric('latchkey_proxy_cut_total{by="provider"}')).toBe(1);
  });

  it("ends the provider's connection when its caller cancels", async () => {
    const { session, proxyHeaders, provider, metric } = await connected((_, socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    });
    const stream = session.request({ ":path": "/proxy/x", ...proxyHeaders });
    await once(stream, "data");
    stream.close(NGHTTP2_CANCEL);
    const [connection] = provider.connections;
    if (connection?.socket.closed === false) await once(connection.socket, "close");
    while ((await metric("latchkey_proxy_open")) !== 0) await sleep(10);
    expect(await metric('latchkey_proxy_cut_total{by="caller"}')).toBe(1);
  });

  it("sends refusals at once, and continues the other streams of the session", async () => {
    const { session, say, proxyHeaders } = await connected();
    const body = Buffer.alloc(mib);
    const refused = session.request({
      ":path": "/proxy/x",
      ":method": "POST",
      ...proxyHeaders,
      "connection-id": "zed",
    });
    refused.write(body);
    const answer = await answerOf(refused);
    expect([answer.status, answer.headers["latchkey-error"], answer.code]).toEqual([404, "unknown_connection", 0]);
    const twice = await say("/proxy/x", { headers: { ":authority": "localhost", host: "elsewhere.test" } });
    expect([twice.status, twice.headers["latchkey-error"]]).toEqual([400, "duplicate_header"]);
    const misled = await say("/proxy/x", { headers: { ":authority": "elsewhere.test" } });
    expect([misled.status, misled.headers["latchkey-error"]]).toEqual([421, "misdirected_request"]);
    expect((await say("/proxy/x")).status).toBe(200);
    expect(session.closed).toBe(false);
  });

  it("serves latchkey's own routes as well", async () => {
    const { session, proxyHeaders } = await connected();
    const { authorization } = proxyHeaders;
    const listed = await streamed(session, "/connections", { headers: { authorization } });
    expect(JSON.parse(listed.body).connections).toHaveLength(1);
    const made = await streamed(session, "/connections", {
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({
        provider_config_key: "here",
        connection_id: "bob",
        credentials: { type: "API_KEY", apiKey: "the-key-of-bob" },
      }),
    });
    expect(made.status).toBe(201);
    const none = await streamed(session, "/nothing");
    expect([none.status, none.headers["latchkey-error"]]).toEqual([404, "not_found"]);
    expect((await streamed(session, "/connections")).status).toBe(401);
  });

  it("reads no body whose caller has left before", { timeout: 20_000 }, async () => {
    const { promise: begun, resolve } = Promise.withResolvers<StreamRequest>();
    const options = { maxHeadBytes: 65_536, maxHeadLines: 100, stallMs: 60_000, serve: resolve, refuse: () => {} };
    const sessions = createCallerSessions(options);
    const server = http.createServer();
    server.removeAllListeners("connection").on("connection", (socket: Socket) => sessions.serve(socket));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      sessions.destroy();
      server.close();
    });
    const session = await openSession(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const stream = session.request({ ":method": "POST" }, { waitForTrailers: true });
    stream.on("error", () => {});
    const request = await begun;
    const left = new Promise<void>((closed) => request.on("close", closed));
    stream.close(NGHTTP2_CANCEL);
    await left;
    await expect(readBody(request, 1_000)).rejects.toBeInstanceOf(ClientGone);
  });

  it("drops an aborted body", async () => {
    const { session, proxyHeaders, rest } = await connected();
    const body = JSON.stringify({
      provider_config_key: "here",
      connection_id: "zed",
      credentials: { type: "API_KEY", apiKey: "the-key-of-zed" },
    });
    const { authorization } = proxyHeaders;
    const head = { ":path": "/connections", ":method": "POST", authorization, "content-type": "application/json" };
    // Without this option Node ends the request before it resets the stream.
    const stream = session.request(head, { waitForTrailers: true });
    stream.on("error", () => {});
    stream.write(body);
    await sleep(100);
    stream.close(NGHTTP2_CANCEL);
    await once(stream, "close");
    await streamed(session, "/health");
    await sleep(100);
    expect((await rest("GET", "/connections/zed?provider_config_key=here")).status).toBe(404);
  });

  it("holds no more of an answer than the caller has room for", async () => {
    let written = 0;
    const { session, proxyHeaders } = await connected((_, socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${256 * mib}\r\n\r\n`);
      pump(socket);
    });
    function pump(socket: Socket): void {
      const chunk = Buffer.alloc(64 * 1024);
      const more = () => {
        while (written < 256 * mib) {
          written += chunk.length;
          if (!socket.write(chunk)) {
            socket.once("drain", more);
            return;
          }
        }
      };
      more();
    }
    const stream = session.request({ ":path": "/proxy/large", ...proxyHeaders });
    await once(stream, "response");
    // The caller does not read: everything that was sent by now is in buffers.
    let before = -1;
    while (written !== before) {
      before = written;
      await sleep(300);
    }
    expect(written).toBeLessThan(24 * mib);
    let received = 0;
    stream.on("data", ({ length }: Buffer) => {
      received += length;
    });
    await once(stream, "end");
    expect(received).toBe(256 * mib);
  });
});

describe("a provider that speaks HTTP/2", () => {
  it("gets the requests of HTTP/1.1 callers when it speaks only HTTP/2, with their bodies", async () => {
    const provider = await startHttp2Provider();
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const got = await call(`${data}/proxy/x?y=1`, { headers });
    expect(JSON.parse(got.body)).toMatchObject({ method: "GET", path: "/x?y=1" });
    expect(got.fields).toContainEqual(["via", "2 latchkey"]);
    const body = "b".repeat(500_000);
    const sent = await call(`${data}/proxy/up`, { method: "POST", headers, body });
    expect(JSON.parse(sent.body)).toMatchObject({ method: "POST", body });
    expect(provider.heads[0]).toMatchObject({ "x-api-key": apiKey, via: "1.1 latchkey", te: "trailers" });
    expect(provider.heads[0]).not.toHaveProperty("authorization");
    // Never in the shared compression table of the connection.
    const { [http2.sensitiveHeaders as unknown as string]: neverIndexed } = provider.heads[0] ?? {};
    expect(neverIndexed).toContain("x-api-key");
    expect(provider.sessions).toHaveLength(1);
  });

  it("passes trailers on to HTTP/1.1 in chunks", async () => {
    const provider = await startHttp2Provider((stream) => {
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "42" }));
      stream.end("hi");
    });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    expect(await call(`${data}/proxy/x`, { headers })).toMatchObject({ body: "hi", trailers: ["x-sum", "42"] });
  });

  it("carries many requests over one session, no more at a time than it takes", async () => {
    const provider = await startHttp2Provider((stream, head, count) => void setTimeout(echo, 10, stream, head, count), {
      settings: { maxConcurrentStreams: 5 },
    });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    await call(`${data}/proxy/first`, { headers });
    const session = await openSession(data);
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => streamed(session, `/proxy/${i}`, { headers })),
    );
    expect(answers.map(({ body }) => JSON.parse(body).path)).toEqual(answers.map((_, i) => `/${i}`));
    expect(provider.mostStreams()).toBeLessThanOrEqual(5);
    expect(provider.sessions.length).toBeLessThanOrEqual(8);
  });

  it("receives cancellations of callers, and its own resets are forwarded", async () => {
    const codes: number[] = [];
    const provider = await startHttp2Provider((stream, head) => {
      stream.on("close", () => codes.push(stream.rstCode ?? 0));
      // Without this option Node ends the response before it resets the stream.
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.write("half");
      if (head[":path"] === "/reset") setTimeout(() => stream.close(NGHTTP2_ENHANCE_YOUR_CALM), 20);
    });
    const { data, proxyHeaders, metric } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    const stream = session.request({ ":path": "/proxy/x", ...proxyHeaders });
    await once(stream, "data");
    stream.close(NGHTTP2_CANCEL);
    while (codes.length < 1) await sleep(5);
    expect(codes).toEqual([NGHTTP2_CANCEL]);
    expect((await streamed(session, "/proxy/reset", { headers: proxyHeaders })).code).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
    const cut = await call(`${data}/proxy/reset`, { headers: proxyHeaders });
    expect([cut.status, cut.outcome]).toEqual([200, "cut"]);
    while ((await metric("latchkey_proxy_open")) !== 0) await sleep(10);
    expect(provider.sessions).toHaveLength(1);
  });

  it("never treats an aborted upload as complete", async () => {
    const ends: string[] = [];
    let begun = 0;
    const provider = await startHttp2Provider((stream) => {
      stream.on("data", () => {
        begun += 1;
      });
      // A reset stream ends too.
      stream.on("end", () => stream.aborted || ends.push("whole"));
      stream.on("aborted", () => ends.push("given up"));
    });
    const { data, proxyHeaders } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    const stream = session.request({ ":path": "/proxy/up", ":method": "POST", ...proxyHeaders });
    stream.on("error", () => {});
    stream.write("half");
    while (begun < 1) await sleep(5);
    stream.destroy(new Error("changed its mind"));
    while (ends.length < 1) await sleep(5);
    const request = http.request(`${data}/proxy/up`, { method: "POST", headers: proxyHeaders });
    request.on("error", () => {});
    request.write("half");
    while (begun < 2) await sleep(5);
    request.destroy();
    while (ends.length < 2) await sleep(5);
    expect(ends).toEqual(["given up", "given up"]);
  });

  it("is held up by a slow reader, and holds up a fast writer", async () => {
    let written = 0;
    let read = 0;
    const provider = await startHttp2Provider((stream, head) => {
      if (head[":path"] === "/up") {
        // Reads nothing for a while.
        setTimeout(() => {
          stream.on("data", ({ length }: Buffer) => {
            read += length;
          });
          stream.on("end", () => {
            stream.respond({ ":status": 200 });
            stream.end(String(read));
          });
        }, 1_500);
        return;
      }
      // Node's server may send NO_ERROR in place of END_STREAM when the request was not read: a cut without a length.
      stream.resume();
      stream.respond({ ":status": 200 });
      const chunk = Buffer.alloc(64 * 1024);
      const more = () => {
        while (written < 256 * mib) {
          written += chunk.length;
          if (!stream.write(chunk)) {
            stream.once("drain", more);
            return;
          }
        }
        stream.end();
      };
      more();
    });
    const { data, proxyHeaders } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    const stream = session.request({ ":path": "/proxy/large", ...proxyHeaders });
    await once(stream, "response");
    let before = -1;
    while (written !== before) {
      before = written;
      await sleep(300);
    }
    expect(written).toBeLessThan(24 * mib);
    let received = 0;
    stream.on("data", ({ length }: Buffer) => {
      received += length;
    });
    await once(stream, "end");
    expect(received).toBe(256 * mib);

    const up = session.request({ ":path": "/proxy/up", ":method": "POST", ...proxyHeaders });
    const answer = answerOf(up);
    const chunk = Buffer.alloc(64 * 1024);
    let sent = 0;
    const send = () => {
      while (sent < 64 * mib) {
        sent += chunk.length;
        if (!up.write(chunk)) {
          up.once("drain", send);
          return;
        }
      }
      up.end();
    };
    send();
    await sleep(1_000);
    expect(sent).toBeLessThan(24 * mib);
    expect((await answer).body).toBe(String(64 * mib));
  });

  it("gets a new session after GOAWAY, and after long idleness", async () => {
    const provider = await startHttp2Provider();
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    expect((await call(`${data}/proxy/1`, { headers })).status).toBe(200);
    provider.sessions[0]?.close();
    await sleep(50);
    expect((await call(`${data}/proxy/2`, { headers })).status).toBe(200);
    // Gone without a word: it is learned while the next request is on its way, or before.
    provider.sessions[1]?.socket.destroy();
    expect((await call(`${data}/proxy/3`, { headers })).status).toBe(200);
    expect(provider.sessions).toHaveLength(3);
  });
});

describe("a provider whose frames a test writes", () => {
  /** `:status: 200` of the static table, and nothing behind it. */
  const fine = (stream: number) =>
    frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload: Buffer.from([0x88]) });
  const isHead = ({ type }: { readonly type: string | undefined }) => type === "headers";

  it.each(["GET", "POST"])("has a %s that it refused sent again, once", async (method) => {
    let refusals = 0;
    const provider = await startFramesProvider(({ type, stream, flags: set }, socket) => {
      const isAll = (set & flags.endStream) !== 0 && (type === "headers" || type === "data");
      if (!isAll) return;
      if (refusals < 1) {
        refusals += 1;
        socket.write(frame("reset", { stream, payload: uint32(NGHTTP2_REFUSED_STREAM) }));
      } else socket.write(fine(stream));
    });
    const { data, proxyHeaders } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    const body = method === "POST" ? { body: "hello" } : {};
    expect((await streamed(session, "/proxy/x", { headers: proxyHeaders, ...body })).status).toBe(200);
    const frames = provider.connections.flat();
    expect(frames.filter(isHead)).toHaveLength(2);
    const bodies = frames.filter(({ type, payload }) => type === "data" && payload.length > 0);
    expect(bodies.map(({ payload }) => payload.toString())).toEqual(method === "POST" ? ["hello", "hello"] : []);
  });

  it("is sent no request a third time", async () => {
    const provider = await startFramesProvider(({ type, stream }, socket) => {
      if (type === "headers") socket.write(frame("reset", { stream, payload: uint32(NGHTTP2_REFUSED_STREAM) }));
    });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const answer = await call(`${data}/proxy/x`, { headers });
    expect([answer.status, faultOf(answer)]).toEqual([502, "provider_closed"]);
    expect(provider.connections.flat().filter(isHead)).toHaveLength(2);
  });

  it.each([
    ["says nothing is wrong", 0],
    ["says why", NGHTTP2_ENHANCE_YOUR_CALM],
  ])("has requests after its GOAWAY repeated on another session, when it %s", async (_what, code) => {
    const provider = await startFramesProvider(({ type, stream, flags: set }, socket, connection) => {
      const isAll = (set & flags.endStream) !== 0 && (type === "headers" || type === "data");
      if (!isAll) return;
      // The last processed stream: none.
      if (connection === 0) socket.write(frame("goaway", { payload: Buffer.concat([uint32(0), uint32(code)]) }));
      else socket.write(fine(stream));
    });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const answer = await call(`${data}/proxy/x`, { method: "POST", headers, body: "hello" });
    expect(answer.status).toBe(200);
    expect(provider.connections.length).toBeLessThanOrEqual(2);
  });

  it("has no POST repeated that it may have acted on", async () => {
    let heads = 0;
    const provider = await startFramesProvider(({ type, stream, flags: set }, socket) => {
      const isAll = (set & flags.endStream) !== 0 && (type === "headers" || type === "data");
      if (!isAll) return;
      heads += 1;
      if (heads === 1) socket.write(fine(stream));
      else socket.destroy();
    });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    expect((await call(`${data}/proxy/x`, { headers })).status).toBe(200);
    const answer = await call(`${data}/proxy/x`, { method: "POST", headers, body: "hello" });
    expect([answer.status, faultOf(answer)]).toEqual([502, "provider_closed"]);
    expect(heads).toBe(2);
  });

  it("may end any response later than its head, with trailers", async () => {
    const heads: Record<string, string[]> = {
      "/none": [":status", "204"],
      "/reset": [":status", "205"],
      "/same": [":status", "304"],
      "/empty": [":status", "200", "content-length", "0"],
      "/head": [":status", "200", "content-length", "9"],
    };
    const paths = Object.keys(heads);
    let requests = 0;
    const provider = await startFramesProvider(({ type, stream }, socket) => {
      if (type !== "headers") return;
      const fields = heads[paths[Math.floor(requests / 4)] ?? ""] ?? [];
      const isTrailed = requests % 2 === 1;
      requests += 1;
      const payload = Buffer.concat(fields.flatMap((name, i) => (i % 2 ? [] : [literal(name, fields[i + 1] ?? "")])));
      socket.write(frame("headers", { stream, flags: flags.endHeaders, payload }));
      const end = isTrailed
        ? frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload: literal("x-sum", "42") })
        : frame("data", { stream, flags: flags.endStream });
      // In another tick than the head.
      setTimeout(() => socket.write(end), 10);
    });
    const { data, proxyHeaders: headers, metric } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    for (const path of paths) {
      const method = path === "/head" ? "HEAD" : "GET";
      const said = { headers: { ...headers, ":method": method } };
      const status = Number(heads[path]?.[1]);
      const plain = await streamed(session, `/proxy${path}`, said);
      expect([path, plain.status, plain.body, plain.code]).toEqual([path, status, "", 0]);
      const trailed = await streamed(session, `/proxy${path}`, said);
      expect([path, trailed.status, trailed.trailers["x-sum"], trailed.code]).toEqual([path, status, "42", 0]);
      for (let i = 0; i < 2; i += 1) {
        const over1 = await call(`${data}/proxy${path}`, { method, headers });
        expect([path, over1.status, over1.outcome, over1.body]).toEqual([path, status, "ended", ""]);
      }
    }
    await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
    for (const by of ["caller", "provider"])
      expect((await metric(`latchkey_proxy_cut_total{by="${by}"}`)) ?? 0).toBe(0);
    expect(provider.connections.flat().filter(({ type }) => type === "reset")).toEqual([]);
  });

  it("has its response cut off by NO_ERROR without an end, unless its length shows that nothing is missing", async () => {
    const provider = await startFramesProvider(({ type, stream }, socket) => {
      if (type !== "headers") return;
      const count = answered++;
      const length = count < 2 ? [] : [literal("content-length", "4")];
      const payload = Buffer.concat([literal(":status", "200"), ...length]);
      socket.write(frame("headers", { stream, flags: flags.endHeaders, payload }));
      socket.write(frame("data", { stream, payload: Buffer.from("half") }));
      socket.write(frame("reset", { stream, payload: uint32(0) }));
    });
    let answered = 0;
    const { data, proxyHeaders: headers, metric } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    const cut = await streamed(session, "/proxy/x", { headers });
    expect([cut.status, cut.body, cut.code]).toEqual([200, "half", NGHTTP2_INTERNAL_ERROR]);
    expect((await call(`${data}/proxy/x`, { headers })).outcome).toBe("cut");
    expect(await metric('latchkey_proxy_cut_total{by="provider"}')).toBe(2);
    const whole = await streamed(session, "/proxy/x", { headers });
    expect([whole.status, whole.body, whole.code]).toEqual([200, "half", 0]);
    expect((await call(`${data}/proxy/x`, { headers })).outcome).toBe("ended");
  });

  it("fails a gRPC call that it ends with NO_ERROR and no answer", async () => {
    const provider = await startFramesProvider(({ type, stream }, socket) => {
      if (type === "headers") socket.write(frame("reset", { stream, payload: uint32(0) }));
    });
    const { data, proxyHeaders } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const session = await openSession(data);
    const headers = { ...proxyHeaders, "content-type": "application/grpc", te: "trailers" };
    const answer = await streamed(session, "/proxy/a.B/C", { headers, body: "" });
    expect([answer.status, answer.code]).toEqual([0, NGHTTP2_INTERNAL_ERROR]);
  });

  it("is not waited for when it does not speak HTTP/2", async () => {
    const provider = await startProvider();
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const answer = await call(`${data}/proxy/x`, { headers });
    expect([answer.status, faultOf(answer)]).toEqual([502, "http2_required"]);
  });

  it("is closed when it no longer answers PING", async () => {
    const provider = await startFramesProvider(() => {});
    const { data, proxyHeaders: headers } = await startProxied(provider.port, byPriorKnowledge(provider.port));
    const answer = await call(`${data}/proxy/x`, { headers });
    expect([answer.status, faultOf(answer)]).toEqual([502, "provider_closed"]);
    expect(provider.connections.flat().filter(({ type }) => type === "ping")).toHaveLength(1);
  });
});

describe.skipIf(lacks("openssl"))("under TLS", () => {
  async function withAuthority() {
    const authority = createAuthority(await temporaryFolder(), "authority");
    const own = authority.issue("here", { names: "IP:127.0.0.1" });
    const options: Options = {
      isTls: true,
      files: { "/ca.pem": pem(authority.cert).toString() },
      env: { LATCHKEY_PROVIDER_CA: "/ca.pem" },
    };
    return { authority, tls: { cert: pem(own.cert), key: pem(own.key) }, options };
  }

  it("speaks HTTP/2 to a provider that offers it, to callers over HTTP/2", async () => {
    const { tls, options } = await withAuthority();
    const provider = await startHttp2Provider(echo, { tls });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, options);
    const session = await openSession(data);
    const answers = await Promise.all([1, 2, 3].map((i) => streamed(session, `/proxy/${i}`, { headers })));
    expect(answers.map(({ status, headers: { via } }) => [status, via])).toEqual(
      answers.map(() => [200, "2 latchkey"]),
    );
    expect(provider.sessions).toHaveLength(1);
  });

  it("speaks HTTP/1.1 to one that does not, and asks no more for a while", async () => {
    const { tls, options } = await withAuthority();
    const provider = await startProvider(ok, { ...tls, ALPNProtocols: ["http/1.1"] });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, options);
    const session = await openSession(data);
    for (let i = 0; i < 3; i += 1) {
      const body = `body ${i}`;
      const answer = await streamed(session, `/proxy/${i}`, { headers, body });
      expect(JSON.parse(answer.body)).toEqual({ line: `POST /${i} HTTP/1.1`, body });
    }
    // One to find out the protocol, and one that is kept.
    expect(provider.connections.length).toBeLessThanOrEqual(2);
    const refused = await streamed(session, "/proxy/x", {
      headers: { ...headers, "content-type": "application/grpc" },
      body: "",
    });
    expect([refused.status, refused.headers["grpc-status"], refused.headers["latchkey-error"]]).toEqual([
      200,
      "9",
      "http2_required",
    ]);
  });

  it("limits concurrent requests over HTTP/1.1 too, when that is negotiated", async () => {
    const { tls, options } = await withAuthority();
    const provider = await startProvider((request, socket, count) => void setTimeout(ok, 300, request, socket, count), {
      ...tls,
      ALPNProtocols: ["http/1.1"],
    });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, {
      ...options,
      files: { ...options.files, "/config": "proxy: { requests_per_host: 4, waiting_per_host: 2 }" },
      env: { ...options.env, LATCHKEY_CONFIG: "/config", LATCHKEY_ALLOW_PRIVATE: `127.0.0.1:${provider.port}` },
    });
    const session = await openSession(data);
    // Requests that waited for the protocol all arrive at once, together with those that are already there.
    const before = Array.from({ length: 6 }, () => call(`${data}/proxy/x`, { headers }));
    const beside = Array.from({ length: 2 }, () => streamed(session, "/proxy/x", { headers }));
    const answers = await Promise.all([...before, ...beside]);
    expect(answers.map(({ status }) => status).filter((status) => status === 200).length).toBeGreaterThanOrEqual(4);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 503]));
  });

  it("is used over HTTP/2 for HTTP/1.1 callers when it speaks nothing else", async () => {
    const { tls, options } = await withAuthority();
    const provider = await startHttp2Provider(echo, { tls });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, options);
    for (let i = 0; i < 3; i += 1) {
      const body = `${i}`.repeat(200_000);
      const answer = await call(`${data}/proxy/${i}`, { method: "POST", headers, body });
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject({ method: "POST", path: `/${i}`, body });
    }
    expect(provider.sessions).toHaveLength(1);
  });

  it("trusts no provider over HTTP/2 that it would not trust over HTTP/1.1", async () => {
    const { tls } = await withAuthority();
    const { options } = await withAuthority();
    const provider = await startHttp2Provider(echo, { tls });
    const { data, proxyHeaders: headers } = await startProxied(provider.port, options);
    const session = await openSession(data);
    const answer = await streamed(session, "/proxy/x", { headers });
    expect([answer.status, answer.headers["latchkey-error"]]).toEqual([502, "provider_untrusted"]);
    expect(provider.sessions).toHaveLength(0);
  });

  it("is negotiated on the listener too, beside HTTP/1.1", async () => {
    const { authority } = await withAuthority();
    const own = authority.issue("door", { names: "DNS:localhost" });
    // Only for the clients of this test; latchkey's requests to providers ignore the variable.
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    onTestFinished(() => void delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]);
    const provider = await startProvider();
    const { data, proxyHeaders: headers } = await startProxied(provider.port, {
      files: {
        "/config": "tls: { data: { cert: /door.pem, key: /door.key } }",
        "/door.pem": pem(own.cert).toString(),
        "/door.key": pem(own.key).toString(),
      },
      env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}`, LATCHKEY_CONFIG: "/config" },
    });
    const ca = pem(authority.cert);
    const address = data.replace("127.0.0.1", "localhost");
    const session = await openSession(address, { ca });
    expect(session.alpnProtocol).toBe("h2");
    expect((await streamed(session, "/proxy/x", { headers })).status).toBe(200);
    expect((await fetch(`${address}/proxy/x`, { headers })).status).toBe(200);
  });
});

it("finishes streams when it is stopped, and waits for no session that has none", async () => {
  const provider = await startHttp2Provider((stream) => {
    stream.respond({ ":status": 200 });
    stream.write("half ");
    setTimeout(() => stream.end("whole"), 500);
  });
  const { data, proxyHeaders: headers, stop } = await startProxied(provider.port, byPriorKnowledge(provider.port));
  const idle = await openSession(data);
  const busy = await openSession(data);
  await streamed(idle, "/health");
  const stream = busy.request({ ":path": "/proxy/x", ...headers });
  const answer = answerOf(stream);
  await once(stream, "data");
  const elapsed = startStopwatch();
  const stopped = stop();
  await once(idle, "close");
  expect((await answer).body).toBe("half whole");
  await stopped;
  // The grace period is 25 seconds.
  expect(elapsed.ms).toBeLessThan(10_000);
});

it("reaches no address over HTTP/2 that it would not reach over HTTP/1.1", async () => {
  const provider = await startHttp2Provider();
  const { data, proxyHeaders } = await startProxied(provider.port, {
    ...byPriorKnowledge(provider.port),
    env: { LATCHKEY_ALLOW_PRIVATE: "127.0.0.1:1" },
  });
  const session = await openSession(data);
  const headers = { ...proxyHeaders, "content-type": "application/grpc" };
  const answer = await streamed(session, "/proxy/x", { headers, body: "" });
  expect([answer.headers["grpc-status"], answer.headers["latchkey-error"]]).toEqual(["7", "host_not_allowed"]);
  expect(provider.sessions).toHaveLength(0);
});
