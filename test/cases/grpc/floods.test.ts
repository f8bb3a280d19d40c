import { once } from "node:events";
import http2 from "node:http2";
import { expect, it } from "vitest";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { head, openWire, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import { adminKey, startTestSidecar } from "../../support/sidecar/harness.ts";
import { expectSentAway } from "../../support/wire/flooding.ts";
import { encode, envelope, post } from "../control-plane/foreign.ts";
import { flags, frame, grpcHead, initialWindowSize, literal, openFrames, uint32 } from "../control-plane/frames.ts";
import { startYoungPlane } from "../control-plane/plane.ts";

const running = sidecarOfFile();
const listPath = "/latchkey.v1.ConnectionService/ListConnections";
const { NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants;

it("G13 sends a peer away that opens streams and resets them at once, 5,000 times", async () => {
  const peer = await openFrames(running().control);
  const payload = grpcHead(listPath);
  await expectSentAway(running(), peer, () => {
    for (let i = 0; i < 5_000; i += 1) {
      const stream = 2 * i + 1;
      peer.send(
        frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload }),
        frame("reset", { stream, payload: uint32(NGHTTP2_CANCEL) }),
      );
    }
  });
});

it("G14 sends a peer away whose head never ends (CONTINUATION)", async () => {
  const peer = await openFrames(running().control);
  await expectSentAway(running(), peer, () => {
    peer.send(frame("headers", { stream: 1, flags: flags.endStream, payload: grpcHead(listPath) }));
    const payload = literal("x", "y".repeat(100));
    for (let i = 0; i < 2_000; i += 1) peer.send(frame("continuation", { stream: 1, payload }));
  });
});

it("G14 closes a connection whose header block never ends, and buffers nothing (CONTINUATION)", async () => {
  const peer = await openFrames(running().control);
  await expectSentAway(running(), peer, () => {
    peer.send(frame("headers", { stream: 1, flags: flags.endStream, payload: grpcHead(listPath) }));
    for (let i = 0; i < 2_000; i += 1) peer.send(frame("continuation", { stream: 1 }));
  });
});

it.each([
  ["PING", "ping", Buffer.alloc(8)],
  ["SETTINGS", "settings", Buffer.alloc(0)],
] as const)("G14 sends a peer away that sends 20,000 %s frames and reads no answer", async (_name, type, payload) => {
  const peer = await openFrames(running().control);
  await expectSentAway(running(), peer, () => {
    for (let i = 0; i < 20_000; i += 1) peer.send(frame(type, { payload }));
  });
});

it.each([
  ["PING", "ping", Buffer.alloc(8)],
  ["SETTINGS", "settings", Buffer.alloc(0)],
] as const)("G14 sends a peer away that sends 2,000 %s frames, however patiently", async (_name, type, payload) => {
  const peer = await openFrames(running().control);
  await peer.until(() => peer.count("settings") > 1);
  const answered = peer.count(type);
  await expectSentAway(running(), peer, async () => {
    for (let i = 0; i < 40; i += 1) {
      for (let j = 0; j < 50; j += 1) peer.send(frame(type, { payload }));
      // Each one is answered before the next are sent, so that none ever queues.
      await peer.until(() => peer.count(type) >= answered + 50 * (i + 1));
    }
  });
  expect(peer.goaway()).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
});

it("G14 allows bandwidth estimation while messages are sent", async () => {
  const { control, rest } = running();
  const bulk = { text: "x".repeat(4_000) };
  const connections = Array.from({ length: 1_000 }, (_, i) => ({
    environment: "dev",
    integration: "keyed",
    id: `bulk-${i}`,
    credentials: { apiKey: { apiKey: "k" } },
    metadata: bulk,
  }));
  const { status } = await post(control, "ConnectionService/BatchImportConnections", {
    connections: connections.slice(0, 500),
  });
  expect(status).toBe(200);
  await post(control, "ConnectionService/BatchImportConnections", { connections: connections.slice(500) });

  const session = http2.connect(control);
  await once(session, "connect");
  let pings = 0;
  const ping = () => {
    pings += 1;
    if (!session.destroyed) session.ping(() => {});
  };
  // Like gRPC's bandwidth estimation: one PING for each received piece.
  for (let i = 0; i < 4; i += 1) {
    const stream = session.request({
      ":method": "POST",
      ":path": listPath,
      "content-type": "application/grpc",
      te: "trailers",
      authorization: `Bearer ${adminKey}`,
    });
    stream.on("data", (chunk: Buffer) => {
      for (let sent = 0; sent < chunk.length; sent += 4_096) ping();
    });
    const trailers = once(stream, "trailers");
    stream.end(envelope(encode("latchkey.v1.ListConnectionsRequest", { environment: "dev", page_size: 2_000 })));
    const [{ "grpc-status": code }] = (await trailers) as [http2.IncomingHttpHeaders];
    expect(code).toBe("0");
  }
  expect(pings).toBeGreaterThan(2_000);
  expect(session.destroyed).toBe(false);
  session.destroy();
  expect((await rest("GET", "/connections?limit=1")).status).toBe(200);
});

it("G14 closes a connection that keeps its window at zero", async () => {
  const { address } = await startYoungPlane({ stallMs: 300 });
  const peer = await openFrames(address, { [initialWindowSize]: 0 });
  const payload = grpcHead("/grpc.health.v1.Health/Check");
  for (let i = 0; i < 50; i += 1) {
    const stream = 2 * i + 1;
    peer.send(
      frame("headers", { stream, flags: flags.endHeaders, payload }),
      frame("data", { stream, flags: flags.endStream, payload: envelope(new Uint8Array()) }),
    );
  }
  await peer.closed;
  expect(peer.count("reset")).toBe(50);
  expect(peer.reset(1)).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
});

it.each([
  ["that says nothing", "", false],
  ["that stops in the preface of HTTP/2", "PRI * HTTP/2.0\r\n", false],
  ["whose head goes on and on", "POST /x HTTP/1.1\r\nhost: localhost\r\nx-slow: ", true],
])("G14 closes a connection %s", { concurrent: true }, async (_what, beginning, goesOn) => {
  const wire = await openWire(running().control);
  wire.send(beginning);
  const elapsed = startStopwatch();
  const dripping = setInterval(() => goesOn && wire.send("x"), 500);
  await wire.ended;
  clearInterval(dripping);
  // Ten seconds for a head, and two to notice.
  expect(elapsed.ms).toBeLessThan(14_000);
});

it.each([
  ["a TLS client", Buffer.from("16030100c8010000c40303", "hex")],
  ["an SSH client", Buffer.from("SSH-2.0-OpenSSH_9.6\r\n")],
  ["HTTP/1.0 without a host", Buffer.from("GET / HTTP/1.0\r\n\r\n")],
])("G16 closes cleanly on %s, with one log line, and keeps serving", async (_what, hello) => {
  const { control, logged, rest } = await startTestSidecar();
  const wire = await openWire(control);
  wire.send(hello);
  const answer = await wire.ended;
  expect(statusOf(answer)).toBeGreaterThanOrEqual(400);
  const warnings = logged.filter((line) => line.includes('"level":"warn"'));
  expect(warnings).toHaveLength(1);
  expect(JSON.parse(warnings[0] ?? "")).toMatchObject({ door: "control", peer: "127.0.0.1" });
  expect((await rest("GET", "/health")).status).toBe(200);
  expect((await post(control, "ConnectionService/ListConnections", {})).status).toBe(200);
});

it("G16 answers HTTP/1.0 in its own way, and ends the connection with the answer", async () => {
  const wire = await openWire(running().control);
  const body = "{}";
  wire.send(
    `POST /grpc.health.v1.Health/Check HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  const answer = await wire.ended;
  expect(statusOf(answer)).toBe(200);
  expect(answer).toContain("SERVING");
  expect(answer).not.toMatch(/transfer-encoding/i);
});

/** After an answer to another call, the port has read everything sent before it. */
const isRead = () => post(running().control, "grpc.health.v1.Health/Check", {});

it.each(["P", "PR", "PRI", "PRI * HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n"])(
  "G16 waits until the first bytes distinguish HTTP/2 from HTTP/1.1 (%j)",
  async (beginning) => {
    const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const two = await openWire(running().control);
    two.send(beginning);
    await isRead();
    two.send(Buffer.concat([Buffer.from(preface.slice(beginning.length)), frame("settings")]));
    // The server sends its SETTINGS first, then the ACK of the client's.
    const settings = await two.until((text) => text.length >= 18);
    expect(settings.charCodeAt(3)).toBe(4);
    two.socket.destroy();

    if (beginning.length > 1) return;
    const one = await openWire(running().control);
    one.send(beginning);
    await isRead();
    one.send(head("UT /x HTTP/1.1", "host: localhost"));
    expect(statusOf(await one.until((text) => text.includes("\r\n\r\n")))).toBe(404);
    one.socket.destroy();
  },
);
