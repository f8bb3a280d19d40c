import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { Fault } from "../../../src/base/fault.ts";
import { createDoorGuard } from "../../../src/base/http/door-guard.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics, type Metrics } from "../../../src/base/metrics/metrics.ts";
import { createRareWarning } from "../../../src/base/rare-warning.ts";
import type { Access } from "../../../src/broker/setup/access.ts";
import type { WebhookAnswer, WebhookReceipt } from "../../../src/broker/webhooks/webhooks.ts";
import { defaultLimits } from "../../../src/config/limits.ts";
import { webhookRoutes } from "../../../src/data-plane/api/webhook-routes.ts";
import { createDoor, type Door } from "../../../src/data-plane/server/door.ts";
import { answersIn, head, openWire, say, statusOf } from "../../support/sidecar/door.ts";

const host = "host: localhost";
const post = "POST /webhook/e1/calendar HTTP/1.1";
const success: WebhookAnswer = { status: 200, body: { status: "success" } };

const receipts: WebhookReceipt[] = [];
let receive: (asked: WebhookReceipt) => WebhookAnswer | Promise<WebhookAnswer> = () => success;
/** Whether the integration exists, for one that is not in memory. */
let admit: () => Promise<void> | undefined = () => undefined;

beforeEach(() => {
  receipts.length = 0;
  receive = () => success;
  admit = () => undefined;
});
afterEach(() => void vi.useRealTimers());

interface Opened {
  readonly door: Door;
  readonly address: string;
  readonly metrics: Metrics;
  readonly logged: string[];
}

async function openDoor(hasFastPath: boolean): Promise<Opened> {
  const logged: string[] = [];
  const log = createLog({ level: "error", format: "json", write: (line) => void logged.push(line) });
  const metrics = createMetrics();
  const access: Access = new Proxy({} as Access, {
    get: () => () => {
      throw new Error("nobody is asked for a key");
    },
  });
  const door = createDoor({
    name: "public",
    routes: webhookRoutes({
      webhooks: {
        requireReceiver: () => admit(),
        async receive(asked) {
          receipts.push({ ...asked, received: { ...asked.received, body: Buffer.from(asked.received.body) } });
          return receive(asked);
        },
      },
      publicUrl: () => "https://hooks.example",
    }),
    access,
    guard: createDoorGuard({ hosts: () => new Set(["localhost"]) }),
    limits: defaultLimits,
    tls: undefined,
    hasFastPath,
    warn: createRareWarning({ log, now: Date.now }),
    world: { now: Date.now, log, metrics },
  });
  door.server.listen(0, "127.0.0.1");
  await once(door.server, "listening");
  onTestFinished(() => door.destroy());
  // It listens on a port.
  const { port } = door.server.address() as AddressInfo;
  return { door, address: `http://127.0.0.1:${port}`, metrics, logged };
}

async function openBoth() {
  return { fast: await openDoor(true), general: await openDoor(false) };
}

const handedOver = async ({ metrics }: Opened) => (await metrics.proxyHandedOver.get()).values[0]?.value ?? 0;
const bodies = () => receipts.map(({ received }) => Buffer.from(received.body).toString());

it("gives the same bytes and counts on both paths", async () => {
  const { fast, general } = await openBoth();
  receive = ({ received, url }) => {
    if (url.endsWith("/refused")) throw new Fault("overloaded", "come again", { retryAfterSeconds: 30 });
    if (url.endsWith("/text")) return { status: 200, body: "é", headers: { "content-type": "text/plain", "x-a": "b" } };
    if (url.endsWith("/none")) return { status: 200, body: undefined };
    return { status: 200, body: { headers: received.headers, query: received.query, length: received.body.length } };
  };
  const asked = [
    head(post, host),
    head(post, host, "connection: close"),
    `${head(post, host, "Content-Length: 5", "X-High: caf\u00e9", "X-Two: a", "x-two: b")}hello`,
    head("POST /webhook/e1/text HTTP/1.1", host),
    head("POST /webhook/e1/none HTTP/1.1", host),
    head("POST /webhook/e1/refused HTTP/1.1", host),
    head("POST /webhook/e1/calendar?a=%20b&a=c HTTP/1.1", host),
  ];
  for (const bytes of asked) {
    const [ours, theirs] = await Promise.all(
      [fast, general].map(async ({ address }) => {
        const wire = await openWire(address);
        wire.send(Buffer.from(bytes, "latin1"));
        const text = await wire.until((so) => so.includes("\r\n\r\n"));
        wire.socket.destroy();
        const [top = "", body = ""] = text.split("\r\n\r\n", 2);
        return { top: linesOf(top), body };
      }),
    );
    expect([bytes, ours]).toEqual([bytes, theirs]);
  }
  for (const one of [fast, general]) {
    const { values } = await one.metrics.httpRequests.get();
    expect(values.map(({ labels, value }) => [labels["route"], labels["status"], value])).toEqual([
      ["/webhook/:environment/:key", "200", 6],
      ["/webhook/:environment/:key", "503", 1],
    ]);
    await expect.poll(async () => (await one.metrics.httpOpen.get()).values[0]?.value).toBe(0);
  }
  expect(await handedOver(fast)).toBe(0);
});

/** Order and case are ignored, and the date, which only one path sends. */
const linesOf = (top: string) =>
  top
    .split("\r\n")
    .map((line) => line.toLowerCase())
    .filter((line) => !line.startsWith("date:"))
    .toSorted();

it("accepts bodies in any pieces, and pipelined requests in order", async () => {
  const opened = await openDoor(true);
  const wire = await openWire(opened.address);
  // Fewer bytes do not tell the start of the request.
  const pieces = ["POST /", ...`${head(post, host, "content-length: 10")}0123456789`.slice("POST /".length)];
  for (const byte of pieces) {
    wire.send(byte);
    await new Promise(setImmediate);
  }
  await wire.until((text) => answersIn(text) === 1);
  const many = Array.from({ length: 200 }, (_, i) => `${head(post, host, `content-length: ${`${i}`.length}`)}${i}`);
  wire.send(many.join(""));
  await wire.until((text) => answersIn(text) === 201);
  wire.socket.destroy();
  expect(bodies()).toEqual(["0123456789", ...many.map((_, i) => `${i}`)]);
  expect(await handedOver(opened)).toBe(0);
});

it("answers a pipelined request after the one before it", async () => {
  const { address } = await openDoor(true);
  const { promise, resolve } = Promise.withResolvers<WebhookAnswer>();
  receive = ({ received }) =>
    Buffer.from(received.body).toString() === "1" ? promise : { status: 200, body: "second" };
  const wire = await openWire(address);
  wire.send(`${head(post, host, "content-length: 1")}1${head(post, host, "content-length: 1")}2`);
  await expect.poll(() => receipts.length).toBe(1);
  resolve({ status: 200, body: "first" });
  const text = await wire.until((so) => so.includes("second"));
  expect(text.indexOf("first")).toBeLessThan(text.indexOf("second"));
  wire.socket.destroy();
});

it("does not read a body before it knows its integration, and passes on unknown ones", async () => {
  const opened = await openDoor(true);
  const { promise, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  admit = () => {
    asked += 1;
    return asked === 1 ? promise : undefined;
  };
  const wire = await openWire(opened.address);
  wire.send(`${head(post, host, "content-length: 5")}hello`);
  await expect.poll(() => asked).toBe(1);
  expect(receipts).toEqual([]);
  resolve();
  await wire.until((text) => answersIn(text) === 1);
  expect(bodies()).toEqual(["hello"]);
  expect(await handedOver(opened)).toBe(0);
  admit = () => Promise.reject(new Fault("not_found", "there is nobody here"));
  wire.send(`${head(post, host, "content-length: 5")}hello`);
  expect(await wire.until((text) => answersIn(text) === 2)).toContain("there is nobody here");
  expect(await handedOver(opened)).toBe(1);
  wire.socket.destroy();
});

it("waits 30 seconds for a body, and sets no timer for one that has arrived", async () => {
  const { address } = await openDoor(true);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const wire = await openWire(address);
  onTestFinished(() => void wire.socket.destroy());
  wire.send(`${head(post, host, "content-length: 1")}a`);
  await wire.until((text) => answersIn(text) === 1);
  expect(vi.getTimerCount()).toBe(0);
  wire.send(`${head(post, host, "content-length: 2")}a`);
  await expect.poll(() => vi.getTimerCount(), { interval: 0 }).toBe(1);
  vi.advanceTimersByTime(29_999);
  await new Promise(setImmediate);
  expect(vi.getTimerCount()).toBe(1);
  vi.advanceTimersByTime(1);
  expect(await wire.until((text) => text.includes("408"))).toContain("request_timeout");
  expect(receipts).toHaveLength(1);
});

it("gives the room back of bodies that were broken off, refused or answered", async () => {
  const { address } = await openDoor(true);
  // Each round is far more than the limit for all bodies.
  const large = "a".repeat(4 * 1024 * 1024);
  for (let i = 0; i < 40; i += 1) {
    const wire = await openWire(address);
    wire.send(head(post, host, `content-length: ${large.length + 1}`) + large);
    await new Promise((resolve) => setTimeout(resolve, 5));
    wire.socket.destroy();
    await once(wire.socket, "close");
  }
  receive = () => {
    throw new Fault("overloaded", "come again");
  };
  for (let i = 0; i < 20; i += 1) {
    expect(statusOf(await say(address, head(post, host, `content-length: ${large.length}`) + large))).toBe(503);
  }
  receive = () => success;
  await expect
    .poll(async () => statusOf(await say(address, head(post, host, `content-length: ${large.length}`) + large)))
    .toBe(200);
});

it("refuses what is too much at once, and keeps the connection", async () => {
  const { address } = await openDoor(true);
  const held: (() => void)[] = [];
  receive = () => new Promise((resolve) => held.push(() => resolve(success)));
  const large = "a".repeat(5 * 1024 * 1024);
  const wires = await Promise.all(Array.from({ length: 14 }, () => openWire(address)));
  for (const wire of wires) wire.send(head(post, host, `content-length: ${large.length}`) + large);
  await expect.poll(() => held.length).toBe(12);
  const refused = await Promise.race(wires.map((wire) => wire.until((text) => text.includes("HTTP/1.1 503"))));
  expect(refused).toContain("too many bytes of request bodies");
  for (const release of held) release();
  receive = () => success;
  expect(statusOf(await say(address, `${head(post, host, "content-length: 1")}a`))).toBe(200);
  for (const { socket } of wires) socket.destroy();
});

it("hides unexpected errors, and lets no response field break the head", async () => {
  const { address, logged } = await openDoor(true);
  receive = () => {
    throw new Error("s3cret");
  };
  const answer = await say(address, head(post, host));
  expect(statusOf(answer)).toBe(500);
  expect(answer).not.toContain("s3cret");
  receive = () => ({ status: 200, body: "", headers: { "x-echo": "a\r\nset-cookie: b" } });
  const split = await say(address, head(post, host));
  expect(statusOf(split)).toBe(500);
  expect(split).not.toContain("set-cookie");
  expect(logged).toHaveLength(2);
});

it("passes on everything unusual: other routes, another host, a page, a body too large", async () => {
  const opened = await openDoor(true);
  const odd = [
    head("POST /webhook/e1 HTTP/1.1", host),
    head("GET /webhook/e1/calendar HTTP/1.1", host),
    head("PUT /webhook/e1/calendar HTTP/1.1", host, "content-length: 0"),
    head(post, "host: evil.test"),
    head(post, host, "origin: https://evil.test"),
    head(post, host, "content-length: 10485760"),
    `${head(post, host, "transfer-encoding: chunked")}0\r\n\r\n`,
  ];
  const statuses: (number | undefined)[] = [];
  for (const bytes of odd) statuses.push(statusOf(await say(opened.address, bytes)));
  expect(statuses).toEqual([404, 200, 405, 421, 403, 413, 200]);
  expect(await handedOver(opened)).toBe(odd.length);
});

it("closes a connection after its response when the listener stops", async () => {
  const { door, address } = await openDoor(true);
  const { promise, resolve } = Promise.withResolvers<WebhookAnswer>();
  receive = () => promise;
  const wire = await openWire(address);
  wire.send(head(post, host));
  await expect.poll(() => receipts.length).toBe(1);
  const drained = door.drain();
  resolve(success);
  expect(await wire.ended).toMatch(/^Connection: close\r$/m);
  await drained;
});
