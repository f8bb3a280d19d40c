import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startProvider, startProxied } from "../support/peers/provider.ts";
import { type Postgres, startPostgres } from "../support/postgres/postgres.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { openWire } from "../support/sidecar/door.ts";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { launch, serveInProcess } from "../support/sidecar/process.ts";
import { call, fieldOf } from "../support/wire/proxy-call.ts";
import { createHealth } from "./grpc-health.ts";
import { createProbes } from "./probes.ts";

/** One replica from start to end, as seen by its probes, its callers and the process that stops it. */

const bearer = { authorization: `Bearer ${secretKey}` };
const soon = { interval: 20 };

describe.skipIf(lacks("postgres"))("probes", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("answer for every phase, from the first moment to the last", async () => {
    await server.shutDown();
    const env = {
      LATCHKEY_STORE: server.storeUrl("probes"),
      LATCHKEY_DRAIN_DELAY: "2s",
      LATCHKEY_GRACE: "20s",
    };
    const running = launch(["serve"], { folder: await temporaryFolder(), env });
    await running.says("the store cannot be opened yet");
    const probes = createProbes({ ops: running.address("ops"), control: running.address("control") });
    expect(await probes.look()).toMatchObject({ live: 200, started: 503, ready: 503, grpc: "NOT_SERVING" });
    expect((await probes.look()).why).toMatch(/^starting: ./);

    await server.start();
    await running.says('"phase":"ready"');
    expect(await probes.look()).toEqual({ live: 200, started: 200, ready: 200, why: "ok", grpc: "SERVING" });

    running.child.kill("SIGTERM");
    await running.says('"phase":"draining"');
    expect(await probes.look()).toEqual({ live: 200, started: 200, ready: 503, why: "draining", grpc: "NOT_SERVING" });
    // Not ready, but still serving: clients that do not know yet are not refused.
    const served = await call(`${running.address("data")}/connections`, { headers: bearer });
    expect([served.status, fieldOf(served, "connection")]).toEqual([200, "close"]);
    expect(await running.exited).toBe(0);
    await expect(probes.look()).rejects.toThrow();
  });

  it("report which store refuses writes, without restarting for it", async () => {
    const running = await serveInProcess({
      folder: await temporaryFolder(),
      env: { LATCHKEY_STORE: server.storeUrl("lost") },
    });
    const probes = createProbes({ ops: running.address("ops"), control: running.address("control") });
    await server.shutDown();
    await expect.poll(async () => (await probes.look()).ready, { interval: 100 }).toBe(503);
    expect(await probes.look()).toMatchObject({ live: 200, started: 200 });
    await server.start();
    await expect.poll(async () => (await probes.look()).ready, { interval: 100 }).toBe(200);
  });

  it("hand over the work of one replica as soon as it is told to stop", async () => {
    const env = { LATCHKEY_STORE: server.storeUrl("handing_over"), LATCHKEY_GRACE: "30s" };
    const partitions = async (running: { address(door: "ops"): string }) =>
      Number(/^latchkey_partitions (\d+)$/m.exec(await (await fetch(`${running.address("ops")}/metrics`)).text())?.[1]);
    const one = await serveInProcess({ folder: await temporaryFolder(), env: { ...env, LATCHKEY_DRAIN_DELAY: "20s" } });
    await expect.poll(() => partitions(one), soon).toBe(64);
    const two = await serveInProcess({ folder: await temporaryFolder(), env });
    await expect.poll(async () => [await partitions(one), await partitions(two)], soon).toEqual([32, 32]);
    one.child.kill("SIGTERM");
    await expect.poll(() => partitions(two), { interval: 100 }).toBe(64);
    // It still serves.
    expect((await fetch(`${one.address("data")}/connections`, { headers: bearer })).status).toBe(200);
    one.child.kill("SIGTERM");
    expect(await one.exited).toBe(143);
  });
});

it("answers gRPC health checks without a key, for its own name only", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder() });
  const health = createHealth(running.address("control"));
  expect(await health.check("")).toBe("SERVING");
  expect(await health.check("latchkey.v1.ConnectionService")).toBe("SERVING");
  expect(await health.check("latchkey.v1.Nobody")).toBe("NOT_FOUND");
});

it("refuses a delay that uses up the grace period", async () => {
  const running = launch(["serve"], {
    folder: await temporaryFolder(),
    env: { LATCHKEY_DRAIN_DELAY: "5s", LATCHKEY_GRACE: "5s", LATCHKEY_STREAM_GRACE: "soon" },
  });
  expect(await running.exited).toBe(78);
  expect(running.stderr()).toMatch(/LATCHKEY_DRAIN_DELAY must be shorter than LATCHKEY_GRACE/);
  expect(running.stderr()).toMatch(/LATCHKEY_STREAM_GRACE must be a duration/);
});

it("ends at once on a second signal, though it would still wait for balancers", async () => {
  const running = await serveInProcess({
    folder: await temporaryFolder(),
    env: { LATCHKEY_DRAIN_DELAY: "50s", LATCHKEY_GRACE: "60s" },
  });
  running.child.kill("SIGTERM");
  await running.says("draining");
  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(143);
});

/** A provider with WebSockets that echo, and the close codes that it received. */
async function startEcho() {
  const closed: (readonly [number, string])[] = [];
  const server = http.createServer();
  const sessions = new WebSocketServer({ server });
  const sockets: Duplex[] = [];
  server.on("upgrade", (_, socket) => sockets.push(socket));
  sessions.on("connection", (session) => {
    session.on("message", (data, isBinary) => session.send(data, { binary: isBinary }));
    session.on("close", (code, reason) => closed.push([code, String(reason)]));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions.clients) session.terminate();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, closed, sockets };
}

it("closes both ends of an active WebSocket between two messages when its time is over", async () => {
  const echo = await startEcho();
  const { data, proxyHeaders, stop } = await startProxied(echo.port, {
    env: { LATCHKEY_GRACE: "20s", LATCHKEY_STREAM_GRACE: "700ms" },
  });
  const session = new WebSocket(`${data.replace("http:", "ws:")}/proxy/live`, { headers: proxyHeaders });
  await once(session, "open");
  let sent = 0;
  let heard = 0;
  // Frames with all three forms of a length, in each direction.
  const talking = setInterval(() => {
    for (const size of [10, 1_000, 100_000]) {
      if (session.readyState !== WebSocket.OPEN) return;
      session.send(Buffer.alloc(size, sent));
      sent += 1;
    }
  }, 20);
  onTestFinished(() => clearInterval(talking));
  session.on("message", (message: Buffer) => {
    expect(message.every((byte) => byte === heard % 256)).toBe(true);
    heard += 1;
  });
  const closed = once(session, "close");
  await sleep(300);
  const elapsed = startStopwatch();
  const stopped = stop();
  expect((await closed)[0]).toBe(1001);
  expect(elapsed.passedMs).toBeGreaterThan(600);
  await expect.poll(() => echo.closed.map(([code]) => code), soon).toEqual([1001]);
  await stopped;
  expect(elapsed.ms).toBeLessThan(8_000);
  expect(heard).toBeGreaterThan(5);
});

it("completes a half-sent message before it closes the WebSocket", async () => {
  const echo = await startEcho();
  const { data, proxyHeaders, stop } = await startProxied(echo.port, {
    env: { LATCHKEY_GRACE: "20s", LATCHKEY_STREAM_GRACE: "200ms" },
  });
  const session = new WebSocket(`${data.replace("http:", "ws:")}/proxy/live`, { headers: proxyHeaders });
  await once(session, "open");
  const heard: number[] = [];
  session.on("message", (message: Buffer) => heard.push(message.length));
  const closed = once(session, "close");
  // A frame of 100 bytes, of which 50 were sent.
  echo.sockets[0]?.write(Buffer.from([0x82, 100, ...Buffer.alloc(50)]));
  await sleep(100);
  const stopped = stop();
  await sleep(500);
  expect(session.readyState).toBe(WebSocket.OPEN);
  echo.sockets[0]?.write(Buffer.alloc(50));
  expect((await closed)[0]).toBe(1001);
  expect(heard).toEqual([100]);
  await stopped;
});

it("closes a silent WebSocket as soon as no new requests are accepted", async () => {
  const echo = await startEcho();
  const { data, proxyHeaders, stop } = await startProxied(echo.port, { env: { LATCHKEY_GRACE: "20s" } });
  const session = new WebSocket(`${data.replace("http:", "ws:")}/proxy/live`, { headers: proxyHeaders });
  await once(session, "open");
  const closed = once(session, "close");
  const elapsed = startStopwatch();
  await stop();
  expect((await closed)[0]).toBe(1001);
  expect(elapsed.ms).toBeLessThan(8_000);
});

it("cuts a stream of events when its time is over, and completes a download", async () => {
  const provider = await startProvider(({ line }, socket) => {
    const isStream = line.includes("/events");
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: ${isStream ? "text/event-stream" : "text/csv"}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    let n = 0;
    const ticking = setInterval(() => {
      n += 1;
      if (!socket.writable) return;
      socket.write("8\r\ndata: 1\n\r\n");
      if (isStream || n < 15) return;
      clearInterval(ticking);
      socket.write("0\r\n\r\n");
    }, 100);
    socket.on("close", () => clearInterval(ticking));
  });
  const { data, proxyHeaders, stop } = await startProxied(provider.port, {
    env: { LATCHKEY_GRACE: "20s", LATCHKEY_STREAM_GRACE: "500ms" },
  });
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const [events, download] = ["/events", "/all"].map((path) =>
    call(`${data}/proxy${path}`, { headers: proxyHeaders, agent }),
  );
  await sleep(300);
  const elapsed = startStopwatch();
  const stopped = stop();
  expect(await events).toMatchObject({ status: 200, outcome: "cut" });
  // Long before the grace period is over, and before the download is.
  expect(elapsed.ms).toBeLessThan(8_000);
  expect(await download).toMatchObject({ status: 200, outcome: "ended", body: "data: 1\n".repeat(15) });
  // The download's response did not announce the close, and its caller keeps the connection: stopping does not wait for
  // it.
  await stopped;
  expect(elapsed.ms).toBeLessThan(15_000);
});

it("tells callers with every response to reconnect, and answers requests in progress", async () => {
  const provider = await startProvider((_, socket) => {
    setTimeout(() => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 300);
  });
  const { data, proxyHeaders, proxyLines, stop } = await startProxied(provider.port, {
    env: { LATCHKEY_GRACE: "20s", LATCHKEY_DRAIN_DELAY: "1s" },
  });
  // Sent before the stop, and answered after it.
  const before = call(`${data}/proxy/x`, { headers: proxyHeaders, agent: new http.Agent({ keepAlive: true }) });
  const wire = await openWire(data);
  wire.send(`GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  expect(await wire.until((text) => text.includes("\r\n\r\n"))).not.toMatch(/^connection: close\r$/im);
  await sleep(100);
  const stopped = stop();
  const under = await before;
  expect([under.status, fieldOf(under, "connection")]).toEqual([200, "close"]);
  wire.send(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\n`);
  expect(await wire.ended).toMatch(/HTTP\/1\.1 200 OK\r\n[\s\S]*connection: close\r\n[\s\S]*ok$/i);
  const agent = new http.Agent({ keepAlive: true });
  for (const path of ["/connections", "/nowhere", "/proxy/x"]) {
    const answer = await call(`${data}${path}`, { headers: proxyHeaders, agent });
    expect(fieldOf(answer, "connection"), path).toBe("close");
  }
  const options = await call(`${data}/connections`, { method: "OPTIONS", headers: proxyHeaders, agent });
  expect([options.status, fieldOf(options, "connection")]).toEqual([204, "close"]);
  await stopped;
});
