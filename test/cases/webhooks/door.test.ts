import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterEach, beforeAll, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { Fault } from "../../../src/base/fault.ts";
import { createDoorGuard } from "../../../src/base/http/door-guard.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { createRareWarning } from "../../../src/base/rare-warning.ts";
import type { Access } from "../../../src/broker/setup/access.ts";
import type { WebhookAnswer, WebhookReceipt } from "../../../src/broker/webhooks/webhooks.ts";
import { defaultLimits } from "../../../src/config/limits.ts";
import { readingOf } from "../../../src/core/notifications/reading.ts";
import { webhookRoutes } from "../../../src/data-plane/api/webhook-routes.ts";
import { createDoor } from "../../../src/data-plane/server/door.ts";
import { answersIn, head, openWire, say, statusOf } from "../../support/sidecar/door.ts";
import { isFastLane } from "../../support/sidecar/harness.ts";
import { knownRules, replyTo } from "../../support/wire/notifications.ts";

const host = "host: localhost";
const post = "POST /webhook/e1/calendar HTTP/1.1";
const success: WebhookAnswer = { status: 200, body: { status: "success" }, headers: {} };

let address = "";
const receipts: WebhookReceipt[] = [];
/** Stands in for the broker: the tests check only the listener's half. */
let receive: (asked: WebhookReceipt) => WebhookAnswer = () => success;

beforeAll(async () => {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const world = { now: Date.now, log, metrics: createMetrics() };
  const noKeys = (): never => {
    throw new Error("nobody is asked for a key");
  };
  const access: Access = new Proxy({} as Access, { get: () => noKeys });
  const door = createDoor({
    name: "public",
    routes: webhookRoutes({
      webhooks: {
        requireReceiver: () => undefined,
        async receive(asked) {
          receipts.push(asked);
          return receive(asked);
        },
      },
      publicUrl: () => "https://hooks.example/base",
    }),
    access,
    guard: createDoorGuard({ hosts: () => new Set(["localhost", "127.0.0.1"]) }),
    limits: defaultLimits,
    tls: undefined,
    hasFastPath: isFastLane,
    warn: createRareWarning({ log, now: Date.now }),
    world,
  });
  door.server.listen(0, "127.0.0.1");
  await once(door.server, "listening");
  // It listens on a port.
  address = `http://127.0.0.1:${(door.server.address() as AddressInfo).port}`;
  return () => door.destroy();
});

beforeEach(() => {
  receipts.length = 0;
  receive = () => success;
});
afterEach(() => void vi.useRealTimers());

/** The only request that arrived. */
function only(): WebhookReceipt {
  expect(receipts).toHaveLength(1);
  const [receipt] = receipts;
  if (receipt === undefined) throw new Error("nothing came through");
  return receipt;
}

it("passes a webhook on byte for byte, and sends the broker's answer", async () => {
  const body = Buffer.from([0x7b, 0x00, 0xff, 0x0d, 0x0a, 0x7d]);
  const top = head(
    "POST /webhook/e1/hub%3Aspot?a=%20b&a=c HTTP/1.1",
    host,
    "X-Cal-Message-Number: 10",
    "x-two: a",
    "X-Two: b",
    "content-type: application/json",
    "content-length: 6",
  );
  const answer = await say(address, Buffer.concat([Buffer.from(top), body]));
  expect(statusOf(answer)).toBe(200);
  expect(answer).toMatch(/\r\ncontent-type: application\/json/i);
  expect(answer).toMatch(/\r\n\r\n\{"status":"success"\}$/);
  const { received, ...asked } = only();
  expect(asked).toEqual({
    environmentId: "e1",
    integration: "hub:spot",
    method: "POST",
    url: "https://hooks.example/base/webhook/e1/hub%3Aspot?a=%20b&a=c",
  });
  expect(received.query).toBe("a=%20b&a=c");
  expect(Buffer.from(received.body)).toEqual(body);
  expect(received.headers.slice(1)).toEqual([
    ["x-cal-message-number", "10"],
    ["x-two", "a"],
    ["x-two", "b"],
    ["content-type", "application/json"],
    ["content-length", "6"],
  ]);
});

it("W16 answers no other method, and has no robots.txt", async () => {
  for (const method of ["PUT", "PATCH", "DELETE"]) {
    const answer = await fetch(`${address}/webhook/e1/calendar`, { method });
    expect({ method, status: answer.status, allow: answer.headers.get("allow") }).toEqual({
      method,
      status: 405,
      allow: "POST, GET, HEAD",
    });
  }
  expect((await fetch(`${address}/robots.txt`)).status).toBe(404);
  expect((await fetch(`${address}/webhook/e1`, { method: "POST" })).status).toBe(404);
  expect((await fetch(`${address}/webhook//calendar`, { method: "POST" })).status).toBe(404);
  expect(receipts).toEqual([]);
});

it.each([
  ["no length", head(post, host)],
  ["Content-Length: 0", head(post, host, "content-length: 0")],
  ["chunks of nothing", `${head(post, host, "transfer-encoding: chunked")}0\r\n\r\n`],
])("W17 takes a webhook with %s", async (_, bytes) => {
  expect(statusOf(await say(address, bytes))).toBe(200);
  expect(only().received.body).toHaveLength(0);
});

it("joins a chunked body", async () => {
  await say(address, `${head(post, host, "transfer-encoding: chunked")}2\r\n{"\r\n3\r\na":\r\n2\r\n1}\r\n0\r\n\r\n`);
  expect(Buffer.from(only().received.body).toString()).toBe('{"a":1}');
});

it("W17 refuses 10 MiB before they are sent, and in chunks once they are too many", async () => {
  const claimed = await say(address, head(post, host, "content-length: 10485760"));
  expect(statusOf(claimed)).toBe(413);
  const wire = await openWire(address);
  wire.send(head(post, host, "transfer-encoding: chunked"));
  const chunk = Buffer.concat([Buffer.from("100000\r\n"), Buffer.alloc(0x100000, 0x61), Buffer.from("\r\n")]);
  for (let i = 0; i < 6; i++) wire.send(chunk);
  expect(statusOf(await wire.until((text) => text.includes("\r\n\r\n")))).toBe(413);
  wire.socket.destroy();
  expect(receipts).toEqual([]);
});

it("W17 takes 5 MiB, and not a byte more", async () => {
  const send = async (length: number) =>
    (await fetch(`${address}/webhook/e1/calendar`, { method: "POST", body: new Uint8Array(length) })).status;
  expect(await send(5 * 1024 * 1024)).toBe(200);
  expect(only().received.body).toHaveLength(5 * 1024 * 1024);
  expect(await send(5 * 1024 * 1024 + 1)).toBe(413);
});

it("W18 keeps header values of any bytes", async () => {
  const value = Buffer.from(Array.from({ length: 128 }, (_, i) => 0x80 + i));
  const bytes = Buffer.concat([
    Buffer.from(`${post}\r\n${host}\r\nx-cal-resource-uri: `),
    value,
    Buffer.from("\r\n\r\n"),
  ]);
  expect(statusOf(await say(address, bytes))).toBe(200);
  const [, sent = ""] = only().received.headers.find(([name]) => name === "x-cal-resource-uri") ?? [];
  expect(Buffer.from(sent, "latin1")).toEqual(value);
});

it("W18 refuses 300 header lines and a path of 10 KiB", async () => {
  const lines = Array.from({ length: 300 }, (_, i) => `x-${i}: ${i}`);
  expect(statusOf(await say(address, head(post, host, ...lines)))).toBe(431);
  expect(statusOf(await say(address, head(`POST /webhook/e1/calendar?${"x".repeat(10_240)} HTTP/1.1`, host)))).toBe(
    414,
  );
  expect(receipts).toEqual([]);
});

it("W27 echoes a challenge as text that no browser takes for a page", async () => {
  receive = ({ received }) => replyTo(knownRules("microsoft").challenge, readingOf(received)) ?? success;
  const answer = await say(address, head("POST /webhook/e1/ms?validationToken=a%20b<script> HTTP/1.1", host));
  expect(statusOf(answer)).toBe(200);
  expect(answer).toMatch(/\r\ncontent-type: text\/plain; charset=utf-8\r\n/i);
  expect(answer).toMatch(/\r\nx-content-type-options: nosniff\r\n/i);
  expect(answer).toMatch(/\r\n\r\na b<script>$/);
});

it("echoes the header of a handshake, and nothing else", async () => {
  receive = ({ received }) => replyTo(knownRules("asana").challenge, readingOf(received)) ?? success;
  const answer = await say(address, head(post, host, "X-Hook-Secret: b537207f20cbfa02357cf448134da559"));
  expect(answer).toMatch(/\r\nx-hook-secret: b537207f20cbfa02357cf448134da559\r\n/i);
  expect(answer).toMatch(/\r\ncontent-length: 0\r\n/i);
});

it("sends the broker's refusals, and hides unexpected errors", async () => {
  receive = () => {
    throw new Fault("unknown_environment", "there is no such webhook");
  };
  expect(statusOf(await say(address, head(post, host)))).toBe(404);
  receive = () => {
    throw new Error("s3cret");
  };
  const answer = await say(address, head(post, host));
  expect(statusOf(answer)).toBe(500);
  expect(answer).not.toContain("s3cret");
});

it("answers 100-continue, except for a body that is too large", async () => {
  const wire = await openWire(address);
  wire.send(head(post, host, "expect: 100-continue", "content-length: 2"));
  await wire.until((text) => text.includes("100 Continue"));
  wire.send("{}");
  expect(answersIn(await wire.until((text) => text.includes('"success"}')))).toBe(2);
  wire.socket.destroy();
  const refused = await say(address, head(post, host, "expect: 100-continue", "content-length: 10485760"));
  expect(statusOf(refused)).toBe(413);
});

it("waits 30 seconds for a body, and no longer", async () => {
  const wire = await openWire(address);
  onTestFinished(() => void wire.socket.destroy());
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  wire.send(head(post, host, "expect: 100-continue", "content-length: 2"));
  await wire.until((text) => text.includes("100 Continue"));
  wire.send("{");
  vi.advanceTimersByTime(29_999);
  vi.advanceTimersByTime(1);
  expect(await wire.until((text) => text.includes("408"))).toContain("request_timeout");
  expect(receipts).toEqual([]);
});

it("takes a webhook from no page, and for no other host", async () => {
  expect(statusOf(await say(address, head(post, host, "origin: https://evil.test", "content-length: 0")))).toBe(403);
  expect(statusOf(await say(address, head(post, "host: evil.test", "content-length: 0")))).toBe(421);
  expect(receipts).toEqual([]);
});
