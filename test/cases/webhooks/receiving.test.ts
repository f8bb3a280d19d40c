import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startApplication } from "../../support/peers/application.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { calendarUri, sendRaw, startReceiving } from "../../support/sidecar/receiving.ts";

async function addressOf({ sidecar }: Awaited<ReturnType<typeof startReceiving>>, integration = "calendar") {
  const { body } = await sidecar.rest("GET", `/integrations/${integration}?include=webhook`);
  return `${sidecar.data}${new URL(body.data.webhook_url).pathname}`;
}

test("W08 a repeated message is accepted and delivered once; without a message id each one is new", async () => {
  const receiving = await startReceiving();
  const { application, notifyOf, notify, integrate, sidecar } = receiving;
  expect(await notifyOf(calendarUri("ada"), 5)).toBe(200);
  expect(await notifyOf(calendarUri("ada"), 5)).toBe(200);
  expect(await notifyOf(calendarUri("ada"), 6)).toBe(200);
  // The same number of another channel is another message.
  expect(await notifyOf(calendarUri("ada"), 5, { "x-cal-channel-id": "channel-2" })).toBe(200);
  await application.got(3);
  await integrate("private-api-key");
  for (const _ of [1, 2]) expect((await notify({ integration: "private-api-key", body: '{"a":1}' })).status).toBe(200);
  const seen = await application.got(5);
  await sleep(100);
  expect(seen).toHaveLength(5);
  expect(new Set(seen.map(({ headers }) => headers["webhook-id"])).size).toBe(5);
  expect(await sidecar.metric('latchkey_notifications_total{outcome="repeated"}')).toBe(1);
});

test("W08 two of the same message at the same moment are forwarded once", async () => {
  const { application, notifyOf } = await startReceiving();
  const statuses = await Promise.all(Array.from({ length: 20 }, () => notifyOf(calendarUri("ada"), 5)));
  expect(new Set(statuses)).toEqual(new Set([200]));
  await application.got(1);
  await sleep(200);
  expect(application.seen).toHaveLength(1);
});

test("W08 after a day the same message is forwarded again, under the same id", async () => {
  let now = Date.now();
  const { application, notifyOf } = await startReceiving({ now: () => now });
  await notifyOf(calendarUri("ada"), 5);
  await application.got(1);
  now += 24 * 3_600_000 + 1_000;
  expect(await notifyOf(calendarUri("ada"), 5)).toBe(200);
  const [first, second] = await application.got(2);
  expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"]);
  expect(second?.body).toBe(first?.body);
});

test("W08 a repeated message is remembered for another day, although its first receipt is swept", async () => {
  let now = Date.now();
  const { application, notifyOf, sidecar } = await startReceiving({
    now: () => now,
    env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": "retention: { deliveries: 2d }" },
  });
  const uri = calendarUri("ada");
  const send = async (count: number) => {
    await notifyOf(uri, 5);
    await application.got(count);
    await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
  };
  await send(1);
  now += 47 * 3_600_000;
  await send(2);
  now += 2 * 3_600_000;
  await sidecar.sidecar.broker.keepHouse();
  expect(await notifyOf(uri, 5)).toBe(200);
  expect(await sidecar.metric('latchkey_notifications_total{outcome="repeated"}')).toBe(1);
  // A day after it came last it is forwarded again.
  now += 24 * 3_600_000;
  await send(3);
});

test("W16 the webhook URL takes notifications only by POST, and no robots.txt excludes it", async () => {
  const receiving = await startReceiving();
  const address = await addressOf(receiving);
  for (const method of ["GET", "PUT", "DELETE", "PATCH"]) {
    expect((await fetch(address, { method })).status).toBe(405);
  }
  // Some providers look whether the URL exists.
  expect((await fetch(address, { method: "HEAD" })).status).toBe(200);
  expect((await fetch(`${receiving.sidecar.data}/robots.txt`)).status).toBe(404);
});

test("W17 too large a body is refused, and none is no body", async () => {
  const receiving = await startReceiving();
  const address = await addressOf(receiving);
  const large = await fetch(address, { method: "POST", body: Buffer.alloc(10 * 1024 * 1024) }).then(
    ({ status }) => status,
    // The listener may close the connection before the whole response was read.
    () => 413,
  );
  expect(large).toBe(413);
  expect(await sendRaw(address, { "content-length": "0" })).toBe(200);
  expect(await sendRaw(address, { "transfer-encoding": "chunked" })).toBe(200);
  const seen = await receiving.application.got(2);
  expect(seen.map(({ body }) => JSON.parse(body).payload)).toEqual([{}, {}]);
});

test("W18 bytes beyond ASCII come out as JSON, the same each time; too many lines and too long a path are refused", async () => {
  const receiving = await startReceiving();
  const address = await addressOf(receiving);
  const bytes = Buffer.from([0x80, 0xc3, 0xff]).toString("latin1");
  for (const number of ["1", "2"]) {
    expect(
      await sendRaw(address, { "x-cal-channel-id": "c", "x-cal-message-number": number, "x-cal-odd": bytes }),
    ).toBe(200);
  }
  const [one, two] = (await receiving.application.got(2)).map(({ body }) => JSON.parse(body).payload["x-cal-odd"]);
  expect(one).toBe("\u0080\u00c3\u00ff");
  expect(two).toBe(one);
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`x-many-${i}`, "v"]));
  expect(await sendRaw(address, many)).toBe(431);
  expect(await sendRaw(`${address}?${"a".repeat(10_240)}`, {})).toBe(414);
});

test("W19 a token that is expected and is missing, wrong or of another length is refused, counted, and not forwarded", async () => {
  const receiving = await startReceiving();
  const { sidecar, application, notifyOf } = receiving;
  const patched = await sidecar.rest("PATCH", "/integrations/calendar", {
    body: { credentials: { type: "OAUTH2", client_id: "client", webhook_secret: "the-expected-token" } },
  });
  expect(patched.status).toBe(200);
  for (const token of [undefined, "the-expected-tokex", "short", "the-expected-token-and-more", ""]) {
    expect(await notifyOf(calendarUri("ada"), 1, token === undefined ? {} : { "x-cal-channel-token": token })).toBe(
      401,
    );
  }
  expect(await notifyOf(calendarUri("ada"), 1, { "x-cal-channel-token": "the-expected-token" })).toBe(200);
  const [delivered] = await application.got(1);
  expect(delivered?.body).not.toContain("the-expected-token");
  await sleep(100);
  expect(application.seen).toHaveLength(1);
  expect(await sidecar.metric('latchkey_notifications_total{outcome="refused"}')).toBe(5);
  expect(await sidecar.metric('latchkey_notifications_refused_total{reason="wrong_token"}')).toBe(4);
  expect(await sidecar.metric('latchkey_notifications_refused_total{reason="unsigned"}')).toBe(1);
});

test("W20 a full outbox answers 503, drops nothing, and recovers", async () => {
  const receiving = await startReceiving({
    env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": "webhooks: { outbox: 50, per_destination: 4 }" },
  });
  const { sidecar, application, notify } = receiving;
  application.answer = (_, response) => void response.writeHead(503).end();
  const send = (number: number) =>
    notify({ headers: { "x-cal-channel-id": "c", "x-cal-message-number": String(number) } });
  const statuses = [];
  for (let number = 1; number <= 60; number += 1) statuses.push(await send(number));
  expect(statuses.filter(({ status }) => status === 200)).toHaveLength(50);
  const refused = statuses.filter(({ status }) => status === 503);
  expect(refused).toHaveLength(10);
  expect(refused[0]?.headers.get("retry-after")).toBe("30");
  application.answer = (_, response) => void response.end();
  await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
  expect((await send(51)).status).toBe(200);
  await expect.poll(() => new Set(application.seen.map(({ headers }) => headers["webhook-id"])).size).toBe(51);
});

test("W20 a failing destination that fills the outbox leaves room for others", async () => {
  const dead = await startApplication();
  dead.answer = (_, response) => void response.writeHead(503).end();
  const { connect, notifyOf, application, sidecar } = await startReceiving({
    env: {
      LATCHKEY_CONFIG: "/latchkey.yaml",
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${new URL(dead.url).port}`,
    },
    files: { "/latchkey.yaml": "webhooks: { outbox: 45 }" },
  });
  await connect("dead", { webhook_url_override: dead.url, metadata: { email: "dead" } });
  const statuses: number[] = [];
  for (let number = 1; number <= 60; number += 1) statuses.push(await notifyOf(calendarUri("dead"), number));
  expect(statuses.filter((status) => status === 200)).toHaveLength(45);
  expect(statuses.slice(45).every((status) => status === 503)).toBe(true);
  for (let number = 1; number <= 20; number += 1) {
    expect(await notifyOf(calendarUri("alive"), number, { "x-cal-channel-id": "another" })).toBe(200);
    await application.got(number);
    await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(45);
  }
  expect(await notifyOf(calendarUri("dead"), 61)).toBe(503);
});

test("W26 an unknown environment or integration is 404, the same for both, and goes nowhere", async () => {
  const receiving = await startReceiving();
  const address = await addressOf(receiving);
  const unknown = [
    address.replace(/webhook\/[^/]+/, `webhook/${"A".repeat(22)}`),
    address.replace(/[^/]+$/, "another"),
    address.replace(/webhook\/[^/]+/, "webhook/dev"),
  ];
  const answers = await Promise.all(
    unknown.map(async (url) => {
      const answer = await fetch(url, { method: "POST", body: "{}" });
      return [answer.status, await answer.text()];
    }),
  );
  expect(answers[0]?.[0]).toBe(404);
  expect(answers[1]).toEqual(answers[0]);
  expect(answers[2]).toEqual(answers[0]);
  expect(receiving.application.seen).toHaveLength(0);
});

test("W27 a validation token is echoed as text that no browser takes for a page", async () => {
  const receiving = await startReceiving();
  await receiving.integrate("microsoft", { credentials: { type: "OAUTH2", client_id: "c", client_secret: "s" } });
  const address = await addressOf(receiving, "microsoft");
  const answer = await fetch(`${address}?validationToken=a%20b%3Cscript%3E`, { method: "POST" });
  expect(answer.status).toBe(200);
  expect(await answer.text()).toBe("a b<script>");
  expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  expect(receiving.application.seen).toHaveLength(0);
});

test("a key is neither required nor read", async () => {
  const receiving = await startReceiving();
  const answer = await receiving.notify({ headers: { authorization: `Bearer ${secretKey}x` } });
  expect([answer.status, answer.text]).toEqual([200, '{"status":"success"}']);
});

test("without a forward address a notification is stored, answered 200, and sent by a later replay", async () => {
  const receiving = await startReceiving({ env: { LATCHKEY_FORWARD_URL: "" } });
  expect(await receiving.notifyOf(calendarUri("ada"))).toBe(200);
  expect(await receiving.sidecar.metric("latchkey_outbox_forwards")).toBe(0);
});

test("a body for an unknown address is not read, and refused or aborted bodies free their memory", async () => {
  const receiving = await startReceiving();
  const address = await addressOf(receiving);
  const nobodys = address.replace(/[^/]+$/, "another");
  // Five times the limit for all bodies together, one large body at a time.
  const large = Buffer.alloc(4 * 1024 * 1024, "a");
  for (let i = 0; i < 20; i += 1) {
    const left = new AbortController();
    const sending = sendAborted(address, large, left.signal);
    if (i % 2 === 0) left.abort();
    await sending;
  }
  expect((await fetch(nobodys, { method: "POST", body: large }).catch(() => ({ status: 404 }))).status).toBe(404);
  expect((await receiving.notify({ body: "the last" })).status).toBe(200);
});

const sendAborted = (url: string, body: Buffer, signal: AbortSignal) =>
  fetch(url, { method: "POST", body, signal }).then(
    () => {},
    () => {},
  );
