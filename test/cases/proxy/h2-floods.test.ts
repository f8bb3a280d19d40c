import { once } from "node:events";
import http2 from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { Http2CallerSession } from "../../../src/relay/http2/callers/caller-session.ts";
import { createCallerSessions } from "../../../src/relay/http2/callers/caller-sessions.ts";
import { type StreamRequest, StreamResponse } from "../../../src/relay/http2/stream-front.ts";
import { startHttp2Provider } from "../../support/peers/http2-provider.ts";
import { type Answering, type ProxiedSidecar, startProvider, startProxied } from "../../support/peers/provider.ts";
import { expectSentAway } from "../../support/wire/flooding.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import {
  type FramesPeer,
  flags,
  frame,
  frameTypes,
  initialWindowSize,
  literal,
  openFrames,
  uint32,
} from "../control-plane/frames.ts";

/** The floods of grpc-floods, against the data listener. */

const {
  NGHTTP2_CANCEL,
  NGHTTP2_ENHANCE_YOUR_CALM,
  NGHTTP2_FLOW_CONTROL_ERROR,
  NGHTTP2_PROTOCOL_ERROR,
  NGHTTP2_REFUSED_STREAM,
} = http2.constants;

const mib = 1024 * 1024;

/** The head of a request through the proxy. */
const headOf = ({ proxyHeaders }: ProxiedSidecar, path = "/proxy/x"): Buffer =>
  Buffer.concat([
    // `:method: GET` and `:scheme: http` of the static table.
    Buffer.from([0x82, 0x86]),
    literal(":path", path),
    literal(":authority", "localhost"),
    ...Object.entries(proxyHeaders).map(([name, value]) => literal(name, value)),
  ]);

async function attacked(answer?: Answering) {
  const provider = await startProvider(answer);
  const running = await startProxied(provider.port, {
    env: { LATCHKEY_CONFIG: "/config", LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}` },
    files: { "/config": "proxy: { idle_ms: 1500 }" },
  });
  const away = (peer: FramesPeer, flood: (peer: FramesPeer) => void | Promise<void>) =>
    expectSentAway(running, peer, flood);
  /** Waits until no request is in progress. */
  const quiet = async () => {
    while ((await running.metric("latchkey_proxy_open")) !== 0) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  return { ...running, running, provider, away, quiet };
}

it("G13 closes a connection to the data listener that opens and resets streams, 5,000 times", async () => {
  const { running, data, away, quiet, provider } = await attacked();
  const peer = await openFrames(data);
  const payload = headOf(running);
  await away(peer, () => {
    for (let i = 0; i < 5_000; i += 1) {
      const stream = 2 * i + 1;
      peer.send(
        frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload }),
        frame("reset", { stream, payload: uint32(NGHTTP2_CANCEL) }),
      );
    }
  });
  await quiet();
  // A stream that is reset at once does not cause a request to the provider.
  expect(provider.connections.length).toBeLessThan(2_000);
});

it("G14 closes a connection to the data listener whose header block never ends (CONTINUATION)", async () => {
  const { running, data, away } = await attacked();
  for (const payload of [literal("x", "y".repeat(100)), Buffer.alloc(0)]) {
    const peer = await openFrames(data);
    await away(peer, () => {
      peer.send(frame("headers", { stream: 1, flags: flags.endStream, payload: headOf(running) }));
      for (let i = 0; i < 2_000; i += 1) peer.send(frame("continuation", { stream: 1, payload }));
    });
  }
});

it.each([
  ["PING", "ping", Buffer.alloc(8)],
  ["SETTINGS", "settings", Buffer.alloc(0)],
] as const)("G14 closes a connection to the data listener that floods %s frames", async (_name, type, payload) => {
  const { data, away } = await attacked();
  const unread = await openFrames(data);
  await away(unread, () => {
    for (let i = 0; i < 20_000; i += 1) unread.send(frame(type, { payload }));
  });
  const patient = await openFrames(data);
  await patient.until(() => patient.count("settings") > 1);
  const answered = patient.count(type);
  await away(patient, async () => {
    for (let i = 0; i < 40; i += 1) {
      for (let j = 0; j < 50; j += 1) patient.send(frame(type, { payload }));
      // Each one is answered before the next are sent, so that none ever queues.
      await patient.until(() => patient.count(type) >= answered + 50 * (i + 1));
    }
  });
  expect(patient.goaway()).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
});

it("G13 closes a connection to the data listener that begins malformed requests, 2,000 times", async () => {
  const { data, away, provider } = await attacked();
  const peer = await openFrames(data);
  await away(peer, () => {
    for (let i = 0; i < 2_000; i += 1) {
      // Without a path.
      const payload = Buffer.concat([Buffer.from([0x82, 0x86]), literal(":authority", "localhost")]);
      peer.send(frame("headers", { stream: 2 * i + 1, flags: flags.endHeaders | flags.endStream, payload }));
    }
  });
  expect(peer.reset(1)).toBe(NGHTTP2_PROTOCOL_ERROR);
  expect(provider.connections).toHaveLength(0);
});

it("G13 closes a connection to the data listener whose client has its streams reset for breaking rules", async () => {
  const { data, away, proxyHeaders } = await attacked();
  const headers = Object.entries(proxyHeaders);
  const head = (stream: number, more: Readonly<Record<string, string>> = {}) =>
    frame("headers", {
      stream,
      flags: flags.endHeaders,
      payload: Buffer.concat([
        // `:method: POST` and `:scheme: http` of the static table.
        Buffer.from([0x83, 0x86]),
        ...[
          [":path", "/connections"],
          [":authority", "localhost"],
          ["content-type", "application/json"],
        ].map(([name = "", value = ""]) => literal(name, value)),
        ...[...headers, ...Object.entries(more)].map(([name, value]) => literal(name, value)),
      ]),
    });
  const trailers = (stream: number, name: string, set: number) =>
    frame("headers", { stream, flags: flags.endHeaders | set, payload: literal(name, "x") });
  const content = (stream: number, text: string, set = 0) =>
    frame("data", { stream, flags: set, payload: Buffer.from(text) });
  const kinds: Record<string, (stream: number) => readonly Uint8Array[]> = {
    "WINDOW_UPDATE by 0": (stream) => [head(stream), frame("windowUpdate", { stream, payload: uint32(0) })],
    "too large a window": (stream) => [head(stream), frame("windowUpdate", { stream, payload: uint32(2 ** 31 - 1) })],
    "trailers without an end": (stream) => [head(stream), trailers(stream, "a", 0)],
    "trailers that are none": (stream) => [head(stream), trailers(stream, ":path", flags.endStream)],
    "more than the length": (stream) => [head(stream, { "content-length": "1" }), content(stream, "{}")],
    "less than the length": (stream) => [
      head(stream, { "content-length": "9" }),
      content(stream, "{}", flags.endStream),
    ],
  };
  for (const [kind, break_] of Object.entries(kinds)) {
    const peer = await openFrames(data);
    let streams = 0;
    await away(peer, async () => {
      while (streams < 3_000 && !peer.socket.closed) {
        for (let i = 0; i < 50; i += 1) peer.send(...break_(2 * streams++ + 1));
        // No more at a time than the session takes: a refused stream would count, too.
        await peer.until(() => peer.count("reset") >= streams || peer.goaway() !== undefined);
      }
    });
    const isOfWindow = kind === "too large a window";
    const code = isOfWindow ? NGHTTP2_FLOW_CONTROL_ERROR : NGHTTP2_PROTOCOL_ERROR;
    expect([kind, peer.goaway(), peer.reset(1), peer.reset(1_601)]).toEqual([
      kind,
      NGHTTP2_ENHANCE_YOUR_CALM,
      code,
      code,
    ]);
  }
});

it("G13 serves a hundred streams of a connection at a time, and refuses further ones", async () => {
  const { running, data, provider, quiet } = await attacked(() => {});
  const peer = await openFrames(data);
  const payload = headOf(running);
  const open = (i: number) =>
    peer.send(frame("headers", { stream: 2 * i + 1, flags: flags.endHeaders | flags.endStream, payload }));
  for (let i = 0; i < 110; i += 1) open(i);
  await peer.until(() => peer.count("reset") === 10);
  expect([peer.reset(199), peer.reset(201), peer.reset(219)]).toEqual([
    undefined,
    NGHTTP2_REFUSED_STREAM,
    NGHTTP2_REFUSED_STREAM,
  ]);
  await expect.poll(() => provider.connections.length).toBeGreaterThan(0);
  expect(await running.metric("latchkey_proxy_open")).toBe(100);
  // Each that ends makes room for another.
  peer.send(frame("reset", { stream: 1, payload: uint32(NGHTTP2_CANCEL) }));
  open(110);
  peer.send(frame("ping", { payload: Buffer.alloc(8) }));
  await peer.until(() => peer.count("ping") === 1);
  expect(peer.count("reset")).toBe(10);
  peer.socket.destroy();
  await quiet();
});

it("G13 ends a connection whose client says GOAWAY, with its last stream", async () => {
  const { running, data } = await attacked((_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const peer = await openFrames(data);
  peer.send(frame("headers", { stream: 1, flags: flags.endHeaders | flags.endStream, payload: headOf(running) }));
  peer.send(frame("goaway", { payload: Buffer.alloc(8) }));
  await peer.closed;
  expect([peer.count("data"), peer.count("reset"), peer.goaway()]).toEqual([1, 0, 0]);
});

it.each([
  ["small answers", "hello"],
  ["large answers", "x".repeat(2_000_000)],
])(
  "G14 closes a connection to the data listener that keeps its window at zero, and %s",
  { timeout: 40_000 },
  async (_what, body) => {
    const { running, data, quiet } = await attacked((_, socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
    const peer = await openFrames(data, { [initialWindowSize]: 0 });
    const payload = headOf(running);
    for (let i = 0; i < 20; i += 1) {
      peer.send(frame("headers", { stream: 2 * i + 1, flags: flags.endHeaders | flags.endStream, payload }));
    }
    await peer.until(() => peer.count("reset") === 20);
    expect(peer.count("reset")).toBe(20);
    await quiet();
    peer.socket.destroy();
  },
);

/** The head of a request without a key. */
const plainHead = (stream: number, path: string) =>
  frame("headers", {
    stream,
    flags: flags.endHeaders | flags.endStream,
    payload: Buffer.concat([Buffer.from([0x82, 0x86]), literal(":path", path), literal(":authority", "localhost")]),
  });
const grow = (stream: number, by: number) => frame("windowUpdate", { stream, payload: uint32(by) });

it("G14 drops responses that a client reads byte by byte, and no others", async () => {
  const { promise: session, resolve: began } = Promise.withResolvers<Http2CallerSession>();
  const serve = (request: StreamRequest) => void new StreamResponse(request).end("x".repeat(300_000));
  const owner = { maxHeadBytes: 65_536, maxHeadLines: 100, stallMs: 1_000, serve, refuse() {}, closed() {} };
  const server = createServer((socket) => began(new Http2CallerSession(socket, owner)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const ended: number[] = [];
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const peer = await openFrames(address, { [initialWindowSize]: 0 }, (received) => {
    if (received.type === frameTypes.data && (received.flags & flags.endStream) !== 0) ended.push(received.stream);
  });
  onTestFinished(() => void peer.socket.destroy());
  peer.send(grow(0, 10_000_000), ...[1, 3, 5].map((stream) => plainHead(stream, "/")));
  const beginMs = performance.now();
  for (let i = 0; i < 10; i += 1) {
    peer.send(grow(1, 16_384), grow(3, 1), frame("ping", { payload: Buffer.alloc(8) }));
    await peer.until(() => peer.count("ping") > i);
    // The time of the test: nothing waits.
    (await session).sweep(beginMs + 300 * i);
  }
  peer.send(grow(1, 300_000));
  await peer.closed;
  const { reset } = peer;
  expect([ended, reset(1), reset(3), reset(5)]).toEqual([
    [1],
    undefined,
    NGHTTP2_ENHANCE_YOUR_CALM,
    NGHTTP2_ENHANCE_YOUR_CALM,
  ]);
});

it("G14 closes a connection to the data listener that changes its window again and again", async () => {
  const { data, away } = await attacked();
  const peer = await openFrames(data, { [initialWindowSize]: 0 });
  peer.send(grow(0, 100_000_000));
  for (let i = 0; i < 100; i += 1) peer.send(plainHead(2 * i + 1, "/openapi.json"));
  await peer.until(() => peer.count("headers") === 100);
  await away(peer, async () => {
    for (let i = 1; i <= 1_000 && !peer.socket.closed; i += 1) {
      const answered = peer.count("settings");
      peer.send(frame("settings", { payload: Buffer.concat([Buffer.from([0, initialWindowSize]), uint32(i)]) }));
      await peer.until(() => peer.count("settings") > answered || peer.goaway() !== undefined);
    }
  });
  expect(peer.goaway()).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
  expect(peer.count("settings")).toBeLessThan(200);
});

it("G14 limits the memory of its own responses that wait, of a session and of all sessions", async () => {
  const own = "x".repeat(mib);
  const shared = Buffer.from(own);
  const sessions = createCallerSessions({
    maxHeadBytes: 65_536,
    maxHeadLines: 100,
    stallMs: 60_000,
    serve: (request) => void new StreamResponse(request).end(request.url === "/shared" ? shared : own),
    refuse: () => {},
  });
  const server = createServer((socket) => sessions.serve(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    sessions.destroy();
    server.close();
  });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const asking = async (path: string, streams: number) => {
    const peer = await openFrames(address, { [initialWindowSize]: 0 });
    for (let i = 0; i < streams; i += 1) peer.send(plainHead(2 * i + 1, path));
    await peer.until(() => peer.count("headers") + peer.count("reset") >= streams);
    return peer;
  };
  const sharing = await asking("/shared", 100);
  expect([sharing.count("headers"), sharing.count("reset")]).toEqual([100, 0]);
  const first = await asking("/own", 6);
  expect([first.count("headers"), first.count("reset"), first.reset(11)]).toEqual([5, 1, NGHTTP2_REFUSED_STREAM]);
  const all = [sharing, first];
  for (let i = 0; i < 11; i += 1) all.push(await asking("/own", 5));
  // 60 MiB are held by now.
  const last = await asking("/own", 4);
  expect(last.count("reset")).toBe(0);
  const beyond = await asking("/own", 1);
  await beyond.until(() => beyond.reset(1) !== undefined);
  expect(beyond.reset(1)).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
  for (const peer of [...all, last, beyond]) peer.socket.destroy();
  await expect
    .poll(async () => {
      const again = await asking("/own", 5);
      const resets = again.count("reset");
      again.socket.destroy();
      return resets;
    })
    .toBe(0);
});

it("G14 allows bandwidth estimation on the data listener during a response", async () => {
  const provider = await startHttp2Provider((stream) => {
    stream.respond({ ":status": 200 });
    stream.end(Buffer.alloc(16_000_000));
  });
  const { data, proxyHeaders: headers } = await startProxied(provider.port, {
    provider: { proxy: { baseUrl: `https://127.0.0.1:${provider.port}`, http2Only: true } },
  });
  const session = await openSession(data);
  let pings = 0;
  const stream = session.request({ ":path": "/proxy/x", ...headers });
  await new Promise<void>((resolve) => {
    // Like gRPC's bandwidth estimation: one PING for each received piece.
    stream.on("data", (chunk: Buffer) => {
      for (let at = 0; at < chunk.length; at += 8_192) {
        pings += 1;
        if (!session.destroyed) session.ping(() => {});
      }
    });
    stream.on("error", () => {});
    stream.on("close", () => resolve());
  });
  expect(pings).toBeGreaterThan(1_500);
  expect(session.destroyed).toBe(false);
  expect((await streamed(session, "/health")).status).toBe(200);
});
