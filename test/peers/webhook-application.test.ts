import { Nango } from "@nangohq/node";
import type { NangoAuthWebhookBody, NangoForwardWebhookBody } from "@nangohq/types";
import { Webhook } from "standardwebhooks";
import { expect, it } from "vitest";
import { EnvironmentService } from "../../src/gen/latchkey/v1/environment_pb.ts";
import type { Delivered } from "../support/peers/application.ts";
import { calendarUri, type Receiving, startReceiving } from "../support/sidecar/receiving.ts";

async function secretsOf({ sidecar }: Receiving): Promise<readonly string[]> {
  const request = { environment: "dev", reveal: true };
  return (await sidecar.client(EnvironmentService).listSigningSecrets(request)).secrets.map(({ secret }) => secret);
}

const byNango = (secret: string, { headers, body }: Delivered) =>
  new Nango({ secretKey: "unused", webhookSigningKey: secret }).verifyIncomingWebhookRequest(body, headers);

function byStandardWebhooks(secret: string, { headers, body }: Delivered): boolean {
  const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  try {
    new Webhook(secret).verify(body, texts);
    return true;
  } catch (error) {
    if ((error as Error).name !== "WebhookVerificationError") throw error;
    return false;
  }
}

it("W21 the application's verifier accepts a provider's notification and latchkey's own events", async () => {
  const receiving = await startReceiving();
  const { connect, notify, notifyOf, application, sidecar } = receiving;
  await connect("ada", { metadata: { email: "ada@example.com" } });
  await notifyOf(calendarUri("ada%40example.com"));
  await notify({ headers: { "content-type": "application/json" }, body: '{"who": "Ada Lövelace ☃", "n": 1.0}' });
  await sidecar.rest("DELETE", "/connections/ada?provider_config_key=calendar");
  const delivered = await application.got(3);
  const [secret = ""] = await secretsOf(receiving);
  for (const one of delivered) {
    expect([byNango(secret, one), byStandardWebhooks(secret, one)]).toEqual([true, true]);
    const changed = { ...one, body: one.body.replace("calendar", "calender") };
    expect([byNango(secret, changed), byStandardWebhooks(secret, changed)]).toEqual([false, false]);
    const other = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
    expect([byNango(other, one), byStandardWebhooks(other, one)]).toEqual([false, false]);
  }
  const bodies = delivered.map(({ body }): NangoForwardWebhookBody | NangoAuthWebhookBody => JSON.parse(body));
  const forwards = bodies.filter((body) => body.type === "forward");
  expect(forwards.map(({ connectionId }) => connectionId).toSorted()).toEqual(["ada", undefined]);
  expect(bodies.filter((body) => body.type === "auth")).toMatchObject([{ operation: "deletion", success: true }]);
});

it("W21 during a rotation, a receiver with either secret accepts webhooks", async () => {
  const receiving = await startReceiving();
  const { notify, application, sidecar } = receiving;
  const [former = ""] = await secretsOf(receiving);
  await sidecar.client(EnvironmentService).rotateSigningSecret({ environment: "dev" });
  const [newest = ""] = await secretsOf(receiving);
  expect(newest).not.toBe(former);
  await notify({ body: "{}" });
  const [one] = await application.got(1);
  if (one === undefined) throw new Error("nothing was delivered");
  expect([byStandardWebhooks(newest, one), byStandardWebhooks(former, one)]).toEqual([true, true]);
  expect(byNango(newest, one)).toBe(true);
});
