import { once } from "node:events";
import http2 from "node:http2";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { head } from "../../support/sidecar/door.ts";
import { adminKey, createIntegrations, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { encode, endOf, envelope, foreignClient, type Plain, post } from "../control-plane/foreign.ts";
import { startYoungPlane } from "../control-plane/plane.ts";

const watchPath = "/latchkey.v1.ConnectionService/WatchConnections";
const watchRequest = envelope(encode("latchkey.v1.WatchConnectionsRequest", { environment: "dev" }));
const cancelled = 1;
const resourceExhausted = 8;
const unavailable = 14;

const item = (id: string, metadata: Plain = {}): Plain => ({
  environment: "dev",
  integration: "keyed",
  id,
  credentials: { apiKey: { apiKey: "k" } },
  metadata,
});

async function furnished(): Promise<TestSidecar> {
  const running = await startTestSidecar();
  await createIntegrations(running);
  return running;
}

async function importMany({ control }: TestSidecar, items: readonly Plain[]): Promise<void> {
  const { status, body } = await post(control, "ConnectionService/BatchImportConnections", { connections: items });
  expect(status).toBe(200);
  expect((body["results"] as readonly Plain[]).filter(({ problem }) => problem !== undefined)).toEqual([]);
}

const thousand = (metadata: Plain) => Array.from({ length: 1_000 }, (_, i) => item(`many-${i}`, metadata));
const openWatchers = ({ metric }: TestSidecar) => metric("latchkey_watchers_open");
const noWatcherIsLeft = (running: TestSidecar) => expect.poll(() => openWatchers(running)).toBe(0);
const oneWatcherIsThere = (running: TestSidecar) => expect.poll(() => openWatchers(running)).toBe(1);

/** A watch over HTTP/2 whose client does not read. */
async function openUnread({ control }: TestSidecar) {
  const session = http2.connect(control);
  await once(session, "connect");
  const stream = session.request({
    ":method": "POST",
    ":path": watchPath,
    "content-type": "application/grpc",
    te: "trailers",
    authorization: `Bearer ${adminKey}`,
  });
  // The code tells why the stream ended.
  stream.on("error", () => {});
  return { session, stream, closed: new Promise<void>((resolve) => stream.once("close", resolve)) };
}

it("G11 closes a watch whose client never reads, without delay for others", async () => {
  const running = await furnished();
  const watching = foreignClient(running.control).serverStream("ConnectionService/WatchConnections", {
    environment: "dev",
  });
  const arrived = new Map<string, number>();
  let heard = () => {};
  watching.on("data", ({ put }: Plain) => {
    if (put?.ref.id.startsWith("probe-")) {
      arrived.set(put.ref.id, performance.now());
      heard();
    }
  });
  const ended = endOf(watching);
  await importMany(running, thousand({}));
  const unread = await openUnread(running);
  unread.stream.end(watchRequest);
  await once(unread.stream, "response");
  await expect.poll(() => openWatchers(running)).toBe(2);

  const before = process.memoryUsage().rss;
  const waits: number[] = [];
  for (let round = 0; round < 100; round += 1) {
    await importMany(running, thousand({ round }));
    if (round % 5 > 0) continue;
    const id = `probe-${round}`;
    const isHeard = new Promise<void>((resolve) => {
      heard = () => arrived.has(id) && resolve();
    });
    const since = performance.now();
    const elapsed = startStopwatch();
    await importMany(running, [item(id)]);
    await isHeard;
    waits.push((arrived.get(id) ?? Number.POSITIVE_INFINITY) - since - elapsed.lateMs);
    // Ten times are enough for their median.
    if (unread.stream.closed && waits.length >= 10) break;
  }

  // It was closed for its backlog, long before the end of the test, and not for being idle.
  expect(unread.stream.closed).toBe(true);
  expect(unread.stream.rstCode).toBe(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
  expect(await running.metric("latchkey_watchers_dropped_total")).toBe(1);
  expect(await openWatchers(running)).toBe(1);
  expect(process.memoryUsage().rss - before).toBeLessThan(512 * 1024 * 1024);
  // The time from a change until another watcher sees it, right after a thousand other changes.
  expect(waits.toSorted((a, b) => a - b)[Math.floor(waits.length / 2)]).toBeLessThan(100);
  unread.session.destroy();
  watching.cancel();
  expect((await ended).code).toBe(cancelled);
});

it("G11 gives a client that resumes reading the reason for the close", async () => {
  const running = await furnished();
  const watching = foreignClient(running.control).serverStream("ConnectionService/WatchConnections", {
    environment: "dev",
  });
  const ended = endOf(watching);
  watching.pause();
  await oneWatcherIsThere(running);
  // A kilobyte each, to fill the sockets' buffers soon.
  for (let round = 0; round < 13; round += 1) {
    await importMany(running, thousand({ round, text: "x".repeat(1_000) }));
  }
  watching.resume();
  expect((await ended).code).toBe(resourceExhausted);
  await noWatcherIsLeft(running);
});

it("G12 drops a watcher that leaves before it has sent its request", async () => {
  const running = await furnished();
  const { session, stream, closed } = await openUnread(running);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await closed;
  session.destroy();
  await expectNoTrace(running);
});

it("G12 drops a watcher that leaves in the middle of the snapshot", async () => {
  const running = await furnished();
  await importMany(running, thousand({ text: "x".repeat(1_000) }));
  const { session, stream, closed } = await openUnread(running);
  stream.end(watchRequest);
  await once(stream, "response");
  await oneWatcherIsThere(running);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await closed;
  session.destroy();
  await expectNoTrace(running);
});

it("G12 drops a watcher that leaves while nothing happens", async () => {
  const running = await furnished();
  const watching = foreignClient(running.control).serverStream("ConnectionService/WatchConnections", {
    environment: "dev",
  });
  const ended = endOf(watching);
  await new Promise<void>((resolve) => {
    watching.on("data", ({ marker }: Plain) => marker?.kind === "KIND_SNAPSHOT_END" && resolve());
  });
  expect(await openWatchers(running)).toBe(1);
  watching.cancel();
  expect((await ended).code).toBe(cancelled);
  await expectNoTrace(running);
});

it("G12 drops a watcher whose connection breaks", async () => {
  const running = await furnished();
  await importMany(running, thousand({ text: "x".repeat(1_000) }));
  const body = envelope(Buffer.from(JSON.stringify({ environment: "dev" })));
  const { port } = new URL(running.control);
  const socket = connect(Number(port), "127.0.0.1");
  socket.pause();
  const lines = [
    `POST ${watchPath} HTTP/1.1`,
    "host: localhost",
    `authorization: Bearer ${adminKey}`,
    "content-type: application/connect+json",
    `content-length: ${body.length}`,
  ];
  socket.write(Buffer.concat([Buffer.from(head(...lines)), body]));
  await oneWatcherIsThere(running);
  socket.resetAndDestroy();
  await expectNoTrace(running);
});

it("G12 keeps what was imported when the caller leaves in mid-stream", async () => {
  const running = await furnished();
  const importing = foreignClient(running.control).bidi("ConnectionService/StreamImportConnections");
  const ended = endOf(importing);
  const answered = new Promise<void>((resolve) => {
    importing.on("data", ({ index }: Plain) => index === "4" && resolve());
  });
  for (let i = 0; i < 5; i += 1) {
    importing.write({
      connection: {
        environment: "dev",
        integration: "keyed",
        id: `kept-${i}`,
        credentials: { api_key: { api_key: "k" } },
      },
    });
  }
  await answered;
  importing.cancel();
  expect((await ended).code).toBe(cancelled);
  const { body } = await running.rest("GET", "/connections");
  expect(body.connections.map((one: Plain) => one["connection_id"]).sort()).toEqual(
    Array.from({ length: 5 }, (_, i) => `kept-${i}`),
  );
  await expectNoTrace(running);
});

/** A client that disconnects leaves no watcher, and is neither counted nor logged as an error. */
async function expectNoTrace(running: TestSidecar): Promise<void> {
  await noWatcherIsLeft(running);
  await expect.poll(() => running.logged.filter((line) => /"level":"(?:error|warn)"/.test(line))).toEqual([]);
  expect(await running.metric("latchkey_unhandled_errors_total")).toBe(0);
}

const health = (foreign: ReturnType<typeof foreignClient>, service = "") =>
  foreign.unary("grpc.health.v1.Health/Check", { service }, { key: "" });

it("G15 reports NOT_SERVING until latchkey is ready, and notifies health watchers of the change", async () => {
  const { address, readiness } = await startYoungPlane();
  const foreign = foreignClient(address);
  expect(await health(foreign)).toMatchObject({ status: "NOT_SERVING" });
  expect(await health(foreign, "latchkey.v1.ConnectionService")).toMatchObject({ status: "NOT_SERVING" });
  const watching = foreign.serverStream("grpc.health.v1.Health/Watch", {}, { key: "" });
  const told: string[] = [];
  const toldOf = (count: number) =>
    new Promise<void>((resolve) => {
      watching.on("data", () => told.length >= count && resolve());
      if (told.length >= count) resolve();
    });
  watching.on("data", ({ status }: Plain) => told.push(status));
  // Cancelled at the end.
  watching.on("error", () => {});
  await toldOf(1);
  readiness.set("ready");
  await toldOf(2);
  expect(await health(foreign)).toMatchObject({ status: "SERVING" });
  readiness.set("draining");
  await toldOf(3);
  expect(told).toEqual(["NOT_SERVING", "SERVING", "NOT_SERVING"]);
  watching.cancel();
});

it("G15 answers everything else not_ready until there is a store to ask", async () => {
  const { address } = await startYoungPlane();
  const { status, headers, body } = await post(address, "ConnectionService/ListConnections", {});
  expect({ status, code: body["code"], error: headers.get("latchkey-error") }).toEqual({
    status: 503,
    code: "unavailable",
    error: "not_ready",
  });
});

it("G15 notifies health watchers that it stops, and then ends their streams", async () => {
  const running = await startTestSidecar();
  const watching = foreignClient(running.control).serverStream("grpc.health.v1.Health/Watch", {}, { key: "" });
  const told: string[] = [];
  const ended = endOf(watching);
  const serving = new Promise<void>((resolve) => {
    watching.on("data", ({ status }: Plain) => {
      told.push(status);
      resolve();
    });
  });
  await serving;
  const elapsed = startStopwatch();
  await running.stop();
  // The grace period is two seconds, and there was nothing to wait for.
  expect(elapsed.ms).toBeLessThan(1_900);
  expect((await ended).code).toBe(unavailable);
  expect(told).toEqual(["SERVING", "NOT_SERVING"]);
});

it("G15 ends a watch as unavailable when latchkey stops, so that its reader goes elsewhere", async () => {
  const running = await furnished();
  const watching = foreignClient(running.control).serverStream("ConnectionService/WatchConnections", {
    environment: "dev",
  });
  const ended = endOf(watching);
  watching.resume();
  await oneWatcherIsThere(running);
  await running.stop();
  expect((await ended).code).toBe(unavailable);
});

it("G15 knows the services it serves and no others", async () => {
  const { address } = await startYoungPlane();
  const foreign = foreignClient(address);
  const failure = await health(foreign, "latchkey.v1.NoService").catch((error: Plain) => error);
  expect(failure["code"]).toBe(5);
  const { statuses } = await foreign.unary("grpc.health.v1.Health/List", {}, { key: "" });
  expect(Object.keys(statuses)).toContain("latchkey.v1.ConnectionService");
  expect(Object.keys(statuses)).toContain("");
});
