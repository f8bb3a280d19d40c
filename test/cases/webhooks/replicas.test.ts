import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApplication } from "../../support/peers/application.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

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
    await expect.poll(waiting, { timeout: 20_000 }).toEqual([0, 0, 0]);
    expect(new Set(application.seen.map(({ headers }) => headers["webhook-id"])).size).toBe(inFlight);
    expect(application.seen).toHaveLength(inFlight);
  }, 90_000);
});
