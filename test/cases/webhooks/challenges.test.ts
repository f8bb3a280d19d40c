import { generateKeyPairSync, sign } from "node:crypto";
import { expect, test } from "vitest";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { type Receiving, startReceiving } from "../../support/sidecar/receiving.ts";

/** Creates a custom provider and its integration; returns the function that sends requests to its webhook URL. */
async function described({ sidecar, integrate }: Receiving, name: string, notification: object, rest: object = {}) {
  const provider = { name, auth: { case: "apiKey", value: {} }, notification, ...rest } as const;
  await sidecar.client(ProviderService).createProvider({ provider: provider as never });
  await integrate(name);
  const { body } = await sidecar.rest("GET", `/integrations/${name}?include=webhook`);
  const { pathname } = new URL(body.data.webhook_url);
  return async (query: string, init: RequestInit = {}) => {
    const answer = await fetch(`${sidecar.data}${pathname}${query}`, init);
    return { status: answer.status, text: await answer.text(), headers: answer.headers };
  };
}

async function update({ sidecar }: Receiving, key: string, more: object, paths: readonly string[]) {
  const integration = { environment: "dev", key, ...more };
  const request = { integration, updateMask: { paths: [...paths] } };
  await sidecar.client(IntegrationService).updateIntegration(request as never);
}

test("answers a GET that knows the operator's token, as soon as there is one", async () => {
  const receiving = await startReceiving();
  const ask = await described(
    receiving,
    "meta",
    {
      challenge: { query: "hub.challenge", method: "GET", tokenQuery: "hub.verify_token", tokenSetting: "verifyToken" },
    },
    { integrationSettings: [{ name: "verifyToken", secret: true }] },
  );
  const query = "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=t-1";
  expect((await ask(query)).status).toBe(401);
  await update(receiving, "meta", { secrets: { settings: { verifyToken: "t-1" } } }, ["secrets.settings"]);
  expect(await ask(query)).toMatchObject({ status: 200, text: "1158201444" });
  expect((await ask(query.replace("t-1", "t-2"))).status).toBe(401);
  expect((await ask("?hub.challenge=1")).status).toBe(401);
});

test("answers HEAD, and no other GET", async () => {
  const receiving = await startReceiving();
  const ask = await described(receiving, "plain", {});
  expect(await ask("", { method: "HEAD" })).toMatchObject({ status: 200, text: "" });
  const got = await ask("");
  expect([got.status, got.headers.get("allow")]).toEqual([405, "POST, HEAD"]);
  const other = await fetch(`${receiving.sidecar.data}/webhook/e1/plain`, { method: "HEAD" });
  expect(other.status).toBe(404);
});

test("answers a proven PING, refuses a forged one, and says to senders what they want to hear", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const raw = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
  const receiving = await startReceiving();
  const ask = await described(receiving, "interactions", {
    signature: {
      scheme: "public_key",
      algorithm: "ed25519",
      header: "x-signature-ed25519",
      timestampHeader: "x-signature-timestamp",
      content: "${timestamp}${body}",
      encoding: "hex",
      keyEncoding: "hex",
    },
    challenge: { when: "type", is: "1", answer: '{"type":1}', contentType: "application/json", proven: true },
    answer: { contentType: "application/json", body: '{"type":5}' },
  });
  const send = (body: string, signed = body) => {
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const signature = sign(null, Buffer.from(`${timestamp}${signed}`), privateKey).toString("hex");
    const headers = { "x-signature-ed25519": signature, "x-signature-timestamp": timestamp };
    return ask("", { method: "POST", headers, body });
  };
  // Without a key nothing is proven, so a challenge that must be proven gets no answer.
  expect((await send('{"type":1}')).status).toBe(401);
  const secrets = { webhookSecret: raw.toString("hex") };
  await update(receiving, "interactions", { secrets }, ["secrets.webhook_secret"]);
  expect(await send('{"type":1}')).toMatchObject({ status: 200, text: '{"type":1}' });
  expect((await send('{"type":1}', '{"type":2}')).status).toBe(401);
  const taken = await send('{"type":2}');
  expect(taken).toMatchObject({ status: 200, text: '{"type":5}' });
  expect(taken.headers.get("content-type")).toBe("application/json; charset=utf-8");
  await receiving.application.got(1);
  expect(JSON.parse(receiving.application.seen[0]?.body ?? "").payload).toEqual({ type: 2 });
});

test("takes a webhook that is proven in any of several ways, and none that is proven in no way", async () => {
  const receiving = await startReceiving();
  const ask = await described(receiving, "several", {
    signature: { scheme: "shared_token", header: "x-token" },
    furtherSignatures: [{ scheme: "basic" }],
  });
  const send = async (headers: Record<string, string>) =>
    (await ask("", { method: "POST", headers, body: "{}" })).status;
  const basic = `Basic ${Buffer.from("user:pass").toString("base64")}`;
  expect(await send({})).toBe(200);
  await update(receiving, "several", { secrets: { webhookSecret: "user:pass" } }, ["secrets.webhook_secret"]);
  expect(await send({ "x-token": "user:pass" })).toBe(200);
  expect(await send({ authorization: basic })).toBe(200);
  for (const headers of [{}, { "x-token": "x" }, { authorization: "Basic eA==" }, { authorization: "Bearer x" }]) {
    expect(await send(headers as Record<string, string>)).toBe(401);
  }
});
