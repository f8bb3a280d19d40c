import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApplication } from "../../support/peers/application.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { calendarUri, sendRaw } from "../../support/sidecar/receiving.ts";

const inFlight = 16;
/** Longer than a replica may deliver without the store. */
const outageMs = 20_000;

describe.skipIf(lacks("postgres"))("replicas that deliver webhooks over PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  test("a delivery made while the store was away is not repeated by the replica that takes over", async () => {
    const application = await startApplication();
    const unanswered: ServerResponse[] = [];
    application.answer = (_, response) => void unanswered.push(response);
    const env = { LATCHKEY_STORE: server.storeUrl("outage"), LATCHKEY_FORWARD_URL: application.url };
    const all = await Promise.all([1, 2, 3].map(() => startTestSidecar({ env })));
    const [one] = all;
    if (one === undefined) throw new Error("none has started");
    await one.rest("POST", "/integrations", { body: { unique_key: "k", provider: "private-api-key" } });
    const { body } = await one.rest("GET", "/integrations/k?include=webhook");
    const address = `${one.data}${new URL(body.data.webhook_url).pathname}`;
    for (let n = 1; n <= inFlight; n += 1) await fetch(address, { method: "POST", body: `{"n":${n}}` });
    await application.got(inFlight);

    await server.crash();
    for (const response of unanswered) response.end();
    application.answer = (_, response) => void response.end();
    await sleep(outageMs);
    await server.start();

    const waiting = () => Promise.all(all.map(({ metric }) => metric("latchkey_outbox_forwards")));
    await expect.poll(waiting).toEqual([0, 0, 0]);
    expect(new Set(application.seen.map(({ headers }) => headers["webhook-id"])).size).toBe(inFlight);
    expect(application.seen).toHaveLength(inFlight);
  });

  test("all replicas deliver, each message once and each channel in order, while one joins and one leaves", async () => {
    const application = await startApplication();
    application.answer = (_, response) => void setTimeout(() => response.end(), 5);
    const env = { LATCHKEY_STORE: server.storeUrl("shares"), LATCHKEY_FORWARD_URL: application.url };
    const [one, two] = [await startTestSidecar({ env }), await startTestSidecar({ env })];
    await one.rest("POST", "/integrations", { body: { unique_key: "k", provider: "calendar" } });
    const { body } = await one.rest("GET", "/integrations/k?include=webhook");
    const path = new URL(body.data.webhook_url).pathname;
    const [channels, each] = [40, 15];
    const sendAll = async (from: number, to: number) => {
      for (let number = from; number < to; number += 1) {
        const sent = Array.from({ length: channels }, (_, channel) =>
          sendRaw(`${two.data}${path}`, {
            "x-cal-channel-id": `channel-${channel}`,
            "x-cal-resource-uri": calendarUri("shared"),
            "x-cal-resource-state": "exists",
            "x-cal-message-number": String(number),
          }),
        );
        expect(new Set(await Promise.all(sent))).toEqual(new Set([200]));
      }
    };
    await expect.poll(() => two.metric("latchkey_partitions")).toBe(32);
    await sendAll(0, 5);
    const three = await startTestSidecar({ env });
    await sendAll(5, 10);
    await expect.poll(() => three.metric("latchkey_partitions")).toBeGreaterThan(20);
    const stopping = one.stop();
    await sendAll(10, each);
    await stopping;
    await application.got(channels * each, 30_000);
    await expect.poll(() => two.metric("latchkey_outbox_forwards")).toBe(0);
    const seen = application.seen.map(({ body: text }) => JSON.parse(text).payload);
    const orders = Map.groupBy(seen, (payload) => payload["x-cal-channel-id"]);
    const inOrder = Array.from({ length: each }, (_, number) => String(number));
    for (const payloads of orders.values()) {
      expect(payloads.map((payload) => payload["x-cal-message-number"])).toEqual(inOrder);
    }
    expect(orders.size).toBe(channels);
    for (const { metric } of [two, three]) {
      expect(await metric('latchkey_delivery_attempts_total{outcome="delivered"}')).toBeGreaterThan(0);
    }
  });
});
