/** The wall clock is set, to and fro, while webhooks wait. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { calendarUri, startReceiving } from "../../support/sidecar/receiving.ts";

const hour = 3_600_000;
const uri = calendarUri("ada");
const environment = "dev";

test("the sweep keeps waiting deliveries although the clock went back before the environment's creation", async () => {
  let now = Date.now();
  const { application, notifyOf, sidecar } = await startReceiving({ now: () => now });
  application.answer = (_, response) => void response.writeHead(500).end();
  now -= 3 * hour;
  expect(await notifyOf(uri)).toBe(200);
  await application.got(1);
  await expect
    .poll(async () => {
      const { forwards } = await sidecar.client(WebhookService, adminKey).listForwards({ environment });
      return forwards[0]?.attemptCount;
    })
    .toBe(1);
  await sidecar.sidecar.broker.keepHouse();
  application.answer = (_, response) => void response.end();
  now += 60_000;
  await application.got(2);
  await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
  const { notifications } = await sidecar.client(WebhookService, adminKey).listNotifications({ environment });
  expect(notifications).toHaveLength(1);
});

test("the rest of a deleted environment is swept, although another has its name", async () => {
  const now = Date.now();
  const { sidecar, application } = await startReceiving({ now: () => now });
  const environments = sidecar.client(EnvironmentService, adminKey);
  const made = () => environments.createEnvironment({ name: "again", forwardUrl: application.url });
  const { environment: first } = await made();
  const webhooks = sidecar.client(WebhookService, adminKey);
  const { secret: key } = await environments.createKey({ environment: "again" });
  const options = { key };
  await sidecar.rest("POST", "/integrations", { ...options, body: { unique_key: "calendar", provider: "calendar" } });
  const address = await sidecar.rest("GET", "/integrations/calendar?include=webhook", options);
  application.answer = (_, response) => void response.writeHead(500).end();
  const answer = await fetch(`${sidecar.data}${new URL(address.body.data.webhook_url).pathname}`, { method: "POST" });
  expect(answer.status).toBe(200);
  await application.got(1);
  expect((await webhooks.listForwards({ environment: "again" })).forwards).toHaveLength(1);
  await sidecar.rest("DELETE", "/integrations/calendar", options);
  await environments.deleteEnvironment({ name: "again" });
  const { environment: second } = await made();
  expect(second?.id).not.toBe(first?.id);
  // In the same millisecond of the clock.
  await sidecar.sidecar.broker.keepHouse();
  expect((await webhooks.listForwards({ environment: "again" })).forwards).toEqual([]);
  expect((await webhooks.listNotifications({ environment: "again" })).notifications).toEqual([]);
});

test("a delivery waits no longer than planned, although the clock went back", async () => {
  let now = Date.now();
  const { application, notifyOf, sidecar } = await startReceiving({ now: () => now });
  application.answer = (_, response) => void response.writeHead(500).end();
  await notifyOf(uri);
  await application.got(1);
  await sleep(300);
  application.answer = (_, response) => void response.end();
  now -= 5 * hour;
  // Noticed, and then waited for from the beginning.
  await sleep(1_500);
  now += 6_500;
  await application.got(2);
  await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
});

test("an untried delivery is sent at once after a start, although the clock went back", async () => {
  let now = Date.now();
  const receiving = await startReceiving({ now: () => now });
  const { application, notifyOf } = receiving;
  const held: (() => void)[] = [];
  application.answer = (_, response) => void held.push(() => response.destroy());
  await notifyOf(uri);
  await application.got(1);
  const stopping = receiving.restart();
  now -= 5 * hour;
  application.answer = (_, response) => void response.end();
  await stopping;
  await application.got(2);
});

test("W08 a message that comes again within a day is not forwarded again, though its notification is kept for an hour", async () => {
  let now = Date.now();
  const { application, notifyOf, sidecar } = await startReceiving({
    now: () => now,
    files: { "latchkey.yaml": "retention: { deliveries: 1h }\n" },
    env: { LATCHKEY_CONFIG: "latchkey.yaml" },
  });
  const webhooks = sidecar.client(WebhookService, adminKey);
  const notifications = async () => (await webhooks.listNotifications({ environment })).notifications.length;
  expect(await notifyOf(uri)).toBe(200);
  await application.got(1);
  await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
  now += 2 * hour;
  await sidecar.sidecar.broker.keepHouse();
  expect(await notifications()).toBe(0);
  now += 21 * hour;
  await sidecar.sidecar.broker.keepHouse();
  expect(await notifyOf(uri)).toBe(200);
  expect(await notifications()).toBe(0);
  now += 2 * hour;
  // Its mark is deleted, and those before it too: then it counts as another message.
  await sidecar.sidecar.broker.keepHouse();
  expect(await notifyOf(uri)).toBe(200);
  expect(await notifications()).toBe(1);
  await application.got(2);
});
