import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { say } from "../../support/sidecar/door.ts";
import { calendarUri, type Receiving, startReceiving } from "../../support/sidecar/receiving.ts";

const secret = `whsec_${Buffer.from("a-secret-of-webhooks-24b").toString("base64")}`;
const body = '{"a":1}';

async function standard({ sidecar, integrate }: Receiving, name: string, more: object = {}): Promise<void> {
  await sidecar.client(ProviderService).createProvider({
    provider: {
      name,
      auth: { case: "apiKey", value: {} },
      proxy: { baseUrl: "https://api.test" },
      notification: { signature: { scheme: "standard_webhooks", ...more } },
    },
  });
  await integrate(name);
  await sidecar.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: name, secrets: { webhookSecret: secret } },
    updateMask: { paths: ["secrets.webhook_secret"] },
  });
}

function signed(id: string): Readonly<Record<"id" | "timestamp" | "signature", string>> {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { id, timestamp, signature: `v1,${mac}` };
}

test("delivers a Standard Webhook once, also if its provider's rules name no message id", async () => {
  const receiving = await startReceiving();
  const { application, notify, sidecar } = receiving;
  await standard(receiving, "standard");
  await standard(receiving, "renamed", { idHeader: "x-id", timestampHeader: "x-at", header: "x-signature" });
  const send = (integration: string, prefix: string, id: string, at = signed(id)) =>
    notify({
      integration,
      body,
      headers:
        prefix === "webhook-"
          ? { "webhook-id": at.id, "webhook-timestamp": at.timestamp, "webhook-signature": at.signature }
          : { "x-id": at.id, "x-at": at.timestamp, "x-signature": at.signature },
    });
  for (const [integration, prefix] of [
    ["standard", "webhook-"],
    ["renamed", "x-"],
  ] as const) {
    const first = signed("m1");
    for (const _ of [1, 2, 3]) expect((await send(integration, prefix, "m1", first)).status).toBe(200);
    // Signed again at another moment, it is the same message; with another id, another one.
    expect((await send(integration, prefix, "m1")).status).toBe(200);
    expect((await send(integration, prefix, "m2")).status).toBe(200);
    // An id that was not signed proves nothing.
    expect((await send(integration, prefix, "m3", { ...first, id: "m3" })).status).toBe(401);
  }
  await application.got(4);
  await sleep(200);
  expect(application.seen).toHaveLength(4);
  expect(await sidecar.metric('latchkey_notifications_total{outcome="repeated"}')).toBe(6);
});

test("matches and verifies nothing by a repeated field", async () => {
  const receiving = await startReceiving();
  const { application, connect, sidecar } = receiving;
  const uri = calendarUri("ada");
  await connect("ada", { metadata: { calendarWatchResourceUris: [uri, `${uri}, ${uri}`] } });
  const path = new URL((await sidecar.rest("GET", "/integrations/calendar?include=webhook")).body.data.webhook_url)
    .pathname;
  const sendLines = (lines: readonly string[], to = path) =>
    say(
      sidecar.data,
      `POST ${to} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\nConnection: close\r\n${lines
        .map((line) => `${line}\r\n`)
        .join("")}\r\n${body}`,
    );
  const own = ["x-cal-resource-state: exists", "x-cal-message-number: 1"];
  await sendLines([...own, "x-cal-channel-id: c1", `x-cal-resource-uri: ${uri}`]);
  await sendLines([...own, "x-cal-channel-id: c2", `x-cal-resource-uri: ${uri}`, `X-Cal-Resource-Uri: ${uri}`]);
  await sendLines([
    ...own,
    "x-cal-channel-id: c3",
    `x-cal-resource-uri: https://else.test`,
    `x-cal-resource-uri: ${uri}`,
  ]);
  await application.got(3);
  const matched = application.seen.map(({ body: text }) => JSON.parse(text).connectionId);
  expect(matched).toEqual(["ada", undefined, undefined]);

  await standard(receiving, "standard");
  const at = new URL((await sidecar.rest("GET", "/integrations/standard?include=webhook")).body.data.webhook_url)
    .pathname;
  const { id, timestamp, signature } = signed("m1");
  const lines = [`webhook-id: ${id}`, `webhook-timestamp: ${timestamp}`, `webhook-signature: ${signature}`];
  for (const twice of lines) expect(await sendLines([...lines, twice], at), twice).toMatch(/^HTTP\/1\.1 401 /);
  expect(await sendLines(lines, at)).toMatch(/^HTTP\/1\.1 200 /);
});
