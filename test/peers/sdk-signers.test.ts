import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IntegrationService } from "../../src/gen/latchkey/v1/integration_pb.ts";
import { listOf, readFixture } from "../support/providers/fixture.ts";
import { environment, type ProvidersWorld, startProvidersWorld } from "../support/providers/providers-world.ts";
import { WebhookTrial } from "../support/providers/webhook-trial.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** Webhooks that providers' own libraries sign, and our signed webhooks as these libraries see them. */

const names = ["stripe", "resend", "openai", "twilio", "github", "discord"];
const clients = createRequire(new URL("clients/package.json", import.meta.url));

/** It has no entry for `require`. */
const octokit = new URL("clients/node_modules/@octokit/webhooks-methods/dist-node/index.js", import.meta.url);

describe.skipIf(lacks("lowPorts"))("libraries of providers", () => {
  let world: ProvidersWorld;
  beforeAll(async () => {
    world = await startProvidersWorld(names);
    for (const name of names) {
      const integration = { environment, key: name, provider: name, oauth: { clientId: "client-id" } };
      await world.sidecar.client(IntegrationService).createIntegration({ integration });
    }
  });
  afterAll(() => world.stop());
  const trialOf = (name: string) => new WebhookTrial(() => world, name);

  it("Stripe's signs what is proven", async () => {
    const secret = "whsec_test";
    const body = JSON.stringify({ id: "evt_1", object: "event", type: "invoice.paid" });
    const header = new Stripe("sk_test_1").webhooks.generateTestHeaderString({ payload: body, secret });
    await trialOf("stripe").check({ secret, headers: { "stripe-signature": header }, body, kind: "invoice.paid" });
  });

  it.each([
    ["resend", "svix", SvixWebhook],
    ["openai", "webhook", StandardWebhook],
  ] as const)("that of %s signs what is proven (%s)", async (name, prefix, Webhook) => {
    const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
    const body = JSON.stringify({ id: "evt_1", type: "email.delivered", data: {} });
    const [id, at] = [`msg_${randomUUID()}`, new Date()];
    const headers = {
      [`${prefix}-id`]: id,
      [`${prefix}-timestamp`]: String(Math.floor(at.getTime() / 1_000)),
      [`${prefix}-signature`]: new Webhook(secret).sign(id, at, body),
    };
    await trialOf(name).check({ secret, headers, body, message_id: id });
  });

  describe.skipIf(lacks("clients"))("installed apart", () => {
    it("Twilio's signs what is proven", async () => {
      const { getExpectedTwilioSignature } = clients("twilio") as {
        getExpectedTwilioSignature(token: string, url: string, params: Record<string, string>): string;
      };
      const { body } = await world.sidecar.rest("GET", "/integrations/twilio?include=webhook");
      const params = { AccountSid: `AC${"0".repeat(32)}`, Body: "Grüße & more", From: "+14158675310" };
      const signature = getExpectedTwilioSignature("12345", body.data.webhook_url, params);
      await trialOf("twilio").check({
        secret: "12345",
        headers: { "x-twilio-signature": signature, "content-type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams(params).toString(),
      });
    });

    it("GitHub's signs what is proven", async () => {
      const { sign } = (await import(octokit.href)) as {
        sign(secret: string, payload: string): Promise<string>;
      };
      const body = JSON.stringify({ action: "opened", repository: { owner: { login: "octocat" } } });
      const headers = { "x-hub-signature-256": await sign("s3cret", body), "x-github-event": "issues" };
      await trialOf("github").check({ secret: "s3cret", headers, body, kind: "issues" });
    });

    it("Discord's accepts our vector", async () => {
      const { verifyKey } = clients("discord-interactions") as {
        verifyKey(body: string, signature: string, timestamp: string, key: string): Promise<boolean> | boolean;
      };
      for (const { headers = {}, body = "", secret = "" } of listOf(readFixture("discord")?.webhook)) {
        const [signature = "", timestamp = ""] = [headers["x-signature-ed25519"], headers["x-signature-timestamp"]];
        expect(await verifyKey(body, signature, timestamp, secret)).toBe(true);
        expect(await verifyKey(`${body} `, signature, timestamp, secret)).toBe(false);
      }
    });

    it("SendGrid's accepts our vector", () => {
      const { EventWebhook } = clients("@sendgrid/eventwebhook") as {
        EventWebhook: new () => {
          convertPublicKeyToECDSA(key: string): unknown;
          verifySignature(key: unknown, body: string, signature: string, timestamp: string): boolean;
        };
      };
      const library = new EventWebhook();
      const vectors = listOf(readFixture("sendgrid")?.webhook);
      expect(vectors.length).toBeGreaterThan(0);
      for (const { headers = {}, body = "", secret = "" } of vectors) {
        const signature = headers["x-twilio-email-event-webhook-signature"] ?? "";
        const timestamp = headers["x-twilio-email-event-webhook-timestamp"] ?? "";
        const key = library.convertPublicKeyToECDSA(secret);
        expect(library.verifySignature(key, body, signature, timestamp)).toBe(true);
        expect(library.verifySignature(key, `${body} `, signature, timestamp)).toBe(false);
      }
    });
  });
});
