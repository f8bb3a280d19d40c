import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { crc32 } from "node:zlib";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { isAccepted, proofOf } from "../../../../src/core/notifications/proof.ts";
import type { ProofRequest } from "../../../../src/core/notifications/schemes/scheme.ts";
import { type SignatureRules, SignatureRulesSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { checkNotification } from "../../../../src/providers/check-notification.ts";
import { reading, rulesOf } from "../../../support/wire/notifications.ts";
import { type WebhookVector, webhookMutations } from "../../../support/wire/webhook-mutations.ts";

type Rules = MessageInitShape<typeof SignatureRulesSchema>;

const nowMs = Date.parse("2026-11-24T12:00:00Z");
const seconds = String(nowMs / 1_000);
const url = "https://hooks.latchkey.test/webhook/e0f1/sample";
const settings = (name: string) => ({ webhookId: "8PT597110X687430LKGECATA", clientId: "client-1" })[name];

const rsa = generateKeyPairSync("rsa", { modulusLength: 2_048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const ed = generateKeyPairSync("ed25519");
const pemOf = (key: KeyObject) => key.export({ type: "spki", format: "pem" }).toString();
const spkiOf = (key: KeyObject) => key.export({ type: "spki", format: "der" });
const rawOf = (key: KeyObject) => Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url");

function prove(rules: SignatureRules, vector: WebhookVector, more: Partial<ProofRequest> = {}) {
  const { method, headers, body, secret } = vector;
  const query = new URL(vector.url).search.slice(1);
  return proofOf({
    rules,
    reading: reading({ headers, body, query }),
    method,
    url: vector.url,
    secret,
    keys: async () => [],
    settings,
    nowMs: vector.nowMs,
    ...more,
  });
}

const vectorOf = (one: Partial<WebhookVector>): WebhookVector => ({
  method: "POST",
  url,
  headers: {},
  body: "",
  secret: "",
  nowMs,
  ...one,
});

const hmac = (secret: string | Uint8Array, text: string, hash = "sha256") => createHmac(hash, secret).update(text);
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
function jwtOf(secret: string, claims: object) {
  const content = `${encoded({ alg: "HS256", typ: "JWT" })}.${encoded(claims)}`;
  return `${content}.${hmac(secret, content).digest("base64url")}`;
}

/** Body of the vector in SendGrid's libraries. Its line end is signed. */
const sendgridBody = `${JSON.stringify([
  {
    email: "hello@world.com",
    event: "dropped",
    reason: "Bounced Address",
    sg_event_id: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
    sg_message_id: "LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",
    "smtp-id": "<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>",
    timestamp: 1_600_112_492,
  },
])}\r\n`;
const sendgridKey =
  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";

/** Body of two elements that are each signed, as Adyen's may be. */
function listBody(change: (one: Record<string, unknown>) => void = () => {}): string {
  const items = ["PSP-1", "PSP-2"].map((pspReference) => {
    const item: Record<string, unknown> = { pspReference, amount: { value: 1130, currency: "EUR" } };
    change(item);
    const text = `${pspReference}::${1130}:EUR`;
    return {
      item: { ...item, additionalData: { hmacSignature: hmac(Buffer.from("44782d", "hex"), text).digest("base64") } },
    };
  });
  return JSON.stringify({ notificationItems: items });
}

const snsFields = {
  Message: "Hello",
  MessageId: "22b80b92",
  Timestamp: "2026-11-24T12:00:00.000Z",
  Type: "Notification",
};
const snsText = Object.entries(snsFields)
  .map(([name, value]) => `${name}\n${value}\n`)
  .join("");
const eventBody = '{"event":"created","id":7}';

/** Each way of proof, with a webhook that is proven by it. Vectors without a word were made here. */
const vectors: readonly (readonly [name: string, rules: Rules, vector: WebhookVector])[] = [
  [
    "Ed25519 (RFC 8032, 7.1, test 2)",
    { scheme: "public_key", algorithm: "ed25519", header: "x-signature", encoding: "hex", keyEncoding: "hex" },
    vectorOf({
      headers: {
        "x-signature":
          "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
      },
      body: "r",
      secret: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    }),
  ],
  [
    "Ed25519 with a time, as Discord signs",
    {
      scheme: "public_key",
      algorithm: "ed25519",
      header: "x-signature-ed25519",
      encoding: "hex",
      keyEncoding: "hex",
      content: "${timestamp}${body}",
      timestampHeader: "x-signature-timestamp",
    },
    vectorOf({
      headers: {
        "x-signature-timestamp": seconds,
        "x-signature-ed25519": sign(null, Buffer.from(`${seconds}{"type":2}`), ed.privateKey).toString("hex"),
      },
      body: '{"type":2}',
      secret: rawOf(ed.publicKey).toString("hex"),
    }),
  ],
  [
    "ECDSA (vector of SendGrid's libraries)",
    {
      scheme: "public_key",
      algorithm: "ecdsa_p256_sha256",
      header: "x-twilio-email-event-webhook-signature",
      encoding: "base64",
      keyEncoding: "base64",
      content: "${timestamp}${body}",
      timestampHeader: "x-twilio-email-event-webhook-timestamp",
      tolerance: { seconds: 300n },
    },
    vectorOf({
      headers: {
        "x-twilio-email-event-webhook-signature":
          "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
        "x-twilio-email-event-webhook-timestamp": "1600112502",
      },
      body: sendgridBody,
      secret: sendgridKey,
      nowMs: 1_600_112_502_000,
    }),
  ],
  [
    "RSA, with a key of the description",
    {
      scheme: "public_key",
      algorithm: "rsa_sha256",
      header: "x-wh-signature",
      encoding: "base64",
      publicKey: pemOf(rsa.publicKey),
    },
    vectorOf({
      headers: { "x-wh-signature": sign("sha256", Buffer.from(eventBody), rsa.privateKey).toString("base64") },
      body: eventBody,
    }),
  ],
  [
    "RSA over headers, a setting and the CRC-32 of the body, as PayPal signs",
    {
      scheme: "public_key",
      algorithm: "rsa_sha256",
      header: "paypal-transmission-sig",
      encoding: "base64",
      content: "${header.paypal-transmission-id}|${timestamp}|${integration.webhookId}|${body_crc32}",
      timestampHeader: "paypal-transmission-time",
      timestampUnit: "iso",
      tolerance: { seconds: 600n },
    },
    vectorOf({
      headers: {
        "paypal-transmission-id": "dfb3be50-fd74-11e4-8bf3-77339302725b",
        "paypal-transmission-time": "2026-11-24T12:00:00Z",
        "paypal-transmission-sig": sign(
          "sha256",
          Buffer.from(
            `dfb3be50-fd74-11e4-8bf3-77339302725b|2026-11-24T12:00:00Z|8PT597110X687430LKGECATA|${crc32(eventBody)}`,
          ),
          rsa.privateKey,
        ).toString("base64"),
      },
      body: eventBody,
      secret: pemOf(rsa.publicKey),
    }),
  ],
  [
    "RSA over lines of fields, as Amazon SNS signs",
    {
      scheme: "public_key",
      algorithm: "rsa_sha1",
      signaturePath: "Signature",
      encoding: "base64",
      contentFields: ["Message", "MessageId", "Subject", "Timestamp", "Type"],
      contentFieldFormat: "name_value_lines",
    },
    vectorOf({
      body: JSON.stringify({
        ...snsFields,
        Signature: sign("sha1", Buffer.from(snsText), rsa.privateKey).toString("base64"),
      }),
      secret: pemOf(rsa.publicKey),
    }),
  ],
  [
    "ECDSA within base64 JSON in a header, as eBay sends it",
    {
      scheme: "public_key",
      algorithm: "ecdsa_p256_sha256",
      encoding: "base64",
      signatureValue: { header: "x-ebay-signature", base64: true, json: "signature" },
    },
    vectorOf({
      headers: {
        "x-ebay-signature": Buffer.from(
          JSON.stringify({
            kid: "k",
            signature: sign("sha256", Buffer.from(eventBody), ec.privateKey).toString("base64"),
          }),
        ).toString("base64"),
      },
      body: eventBody,
      secret: pemOf(ec.publicKey),
    }),
  ],
  [
    "HMAC of an ID, a time and the body, as Twitch signs",
    {
      scheme: "hmac",
      hash: "sha256",
      encoding: "hex",
      prefix: "sha256=",
      header: "twitch-eventsub-message-signature",
      content: "${header.twitch-eventsub-message-id}${timestamp}${body}",
      timestampHeader: "twitch-eventsub-message-timestamp",
      timestampUnit: "iso",
      tolerance: { seconds: 600n },
    },
    vectorOf({
      headers: {
        "twitch-eventsub-message-id": "e76c6bd4",
        "twitch-eventsub-message-timestamp": "2026-11-24T12:00:00.634234626Z",
        "twitch-eventsub-message-signature": `sha256=${hmac("s3cRe7", `e76c6bd42026-11-24T12:00:00.634234626Z${eventBody}`).digest("hex")}`,
      },
      body: eventBody,
      secret: "s3cRe7",
    }),
  ],
  [
    "HMAC in parts between semicolons, as Paddle signs",
    {
      scheme: "hmac",
      hash: "sha256",
      encoding: "hex",
      header: "paddle-signature",
      separator: ";",
      part: "h1",
      timestampPart: "ts",
      content: "${timestamp}:${body}",
      tolerance: { seconds: 300n },
    },
    vectorOf({
      headers: { "paddle-signature": `ts=${seconds};h1=${hmac("pdl", `${seconds}:${eventBody}`).digest("hex")}` },
      body: eventBody,
      secret: "pdl",
    }),
  ],
  [
    "HMAC with one of two keys, as Box signs",
    {
      scheme: "hmac",
      hash: "sha256",
      encoding: "base64",
      header: "box-signature-primary",
      furtherHeaders: ["box-signature-secondary"],
      content: "${body}${timestamp}",
      timestampHeader: "box-delivery-timestamp",
      timestampUnit: "iso",
    },
    vectorOf({
      headers: {
        "box-delivery-timestamp": "2026-11-24T12:00:00Z",
        "box-signature-primary": hmac("old", `${eventBody}2026-11-24T12:00:00Z`).digest("base64"),
        "box-signature-secondary": hmac("new", `${eventBody}2026-11-24T12:00:00Z`).digest("base64"),
      },
      body: eventBody,
      secret: "new",
    }),
  ],
  [
    "HMAC in the body, as Mailgun signs",
    {
      scheme: "hmac",
      hash: "sha256",
      encoding: "hex",
      signaturePath: "signature.signature",
      content: "${timestamp}${body.signature.token}",
      timestampPath: "signature.timestamp",
      tolerance: { seconds: 300n },
    },
    vectorOf({
      body: JSON.stringify({
        signature: {
          token: "e0b5477167110d68",
          timestamp: seconds,
          signature: hmac("k", `${seconds}e0b5477167110d68`).digest("hex"),
        },
        "event-data": { event: "opened" },
      }),
      secret: "k",
    }),
  ],
  [
    "HMAC of fields of each element, as Adyen signs",
    {
      scheme: "hmac",
      hash: "sha256",
      encoding: "base64",
      keyEncoding: "hex",
      signaturePath: "notificationItems.*.item.additionalData.hmacSignature",
      contentFields: ["pspReference", "originalReference", "amount.value", "amount.currency"].map(
        (path) => `notificationItems.*.item.${path}`,
      ),
    },
    vectorOf({ body: listBody(), secret: "44782d" }),
  ],
  [
    "user name and password",
    { scheme: "basic" },
    vectorOf({
      headers: { authorization: `Basic ${Buffer.from("latchkey:s3cret:x").toString("base64")}` },
      body: eventBody,
      secret: "other:x\nlatchkey:s3cret:x",
    }),
  ],
  [
    "JWT by the secret, as monday.com sends it",
    { scheme: "jwt_secret", header: "authorization" },
    vectorOf({
      headers: { authorization: jwtOf("sign-1", { accountId: 1, exp: nowMs / 1_000 + 300, iat: nowMs / 1_000 }) },
      body: eventBody,
      secret: "sign-1",
    }),
  ],
  [
    "JWT by the secret with a hash of the body, as Netlify sends it",
    { scheme: "jwt_secret", header: "x-webhook-signature", issuer: "netlify", bodyHashClaim: "sha256" },
    vectorOf({
      headers: {
        "x-webhook-signature": jwtOf("sign-1", {
          iss: "netlify",
          sha256: createHash("sha256").update(eventBody).digest("hex"),
        }),
      },
      body: eventBody,
      secret: "sign-1",
    }),
  ],
  [
    "Standard Webhooks with a public key",
    { scheme: "standard_webhooks" },
    vectorOf({
      headers: {
        "webhook-id": "msg_1",
        "webhook-timestamp": seconds,
        "webhook-signature": `v1a,${sign(null, Buffer.from(`msg_1.${seconds}.${eventBody}`), ed.privateKey).toString("base64")}`,
      },
      body: eventBody,
      secret: `whpk_${rawOf(ed.publicKey).toString("base64")}`,
    }),
  ],
];

describe.each(vectors)("%s", (_name, init, vector) => {
  const rules = create(SignatureRulesSchema, init);

  it("is a description that the check allows", () => {
    expect(checkNotification(rulesOf({ signature: rules }), ["webhookId"])).toEqual([]);
  });

  it("is proven", async () => {
    expect(await prove(rules, vector)).toEqual({ proven: true });
  });

  it("is refused after any of at least twelve mutations", async () => {
    const mutations = webhookMutations(vector, rules);
    expect(mutations.length).toBeGreaterThanOrEqual(12);
    const accepted: string[] = [];
    for (const one of mutations) if (isAccepted(await prove(rules, one))) accepted.push(one.mutation);
    expect(accepted).toEqual([]);
  });
});

it("reads a public key in each form, and no private key or key of another kind", async () => {
  const of = async (init: Rules, secret: string, signature: string) => {
    const rules = create(SignatureRulesSchema, { scheme: "public_key", header: "x-s", encoding: "base64", ...init });
    const proof = await prove(rules, vectorOf({ headers: { "x-s": signature }, body: eventBody, secret }));
    return proof.proven ? "proven" : proof.reason;
  };
  const content = Buffer.from(eventBody);
  const signed = {
    ed25519: sign(null, content, ed.privateKey).toString("base64"),
    ecdsa_p256_sha256: sign("sha256", content, ec.privateKey).toString("base64"),
    ecdsa_p256_sha1: sign("sha1", content, ec.privateKey).toString("base64"),
    rsa_sha256: sign("sha256", content, rsa.privateKey).toString("base64"),
  };
  const point = Buffer.concat([
    Buffer.of(4),
    ...["x" as const, "y" as const].map((name) =>
      Buffer.from(ec.publicKey.export({ format: "jwk" })[name] ?? "", "base64url"),
    ),
  ]);
  for (const [algorithm, key, raw] of [
    ["ed25519", ed.publicKey, rawOf(ed.publicKey)],
    ["ecdsa_p256_sha256", ec.publicKey, point],
    ["ecdsa_p256_sha1", ec.publicKey, point],
    ["rsa_sha256", rsa.publicKey, spkiOf(rsa.publicKey)],
  ] as const) {
    const signature = signed[algorithm];
    const other = pemOf(generateKeyPairSync("ed25519").publicKey);
    expect(await of({ algorithm }, pemOf(key), signature)).toBe("proven");
    expect(await of({ algorithm }, `${pemOf(key)}${pemOf(key)}\r\n`, signature)).toBe("proven");
    for (const bytes of [spkiOf(key), raw]) {
      expect(await of({ algorithm, keyEncoding: "base64" }, bytes.toString("base64"), signature)).toBe("proven");
      expect(await of({ algorithm, keyEncoding: "hex" }, bytes.toString("hex"), signature)).toBe("proven");
    }
    if (algorithm !== "ed25519") expect(await of({ algorithm }, other, signature)).toBe("unusable_secret");
    for (const wrong of ["secret", "\n", pemOf(key).slice(0, 80), "-----BEGIN PUBLIC KEY-----"]) {
      expect(await of({ algorithm }, wrong, signature)).toBe("unusable_secret");
    }
    expect(await of({ algorithm }, "", signature)).toBe("no_secret");
  }
  const secretKey = rsa.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  expect(await of({ algorithm: "rsa_sha256" }, secretKey, signed.rsa_sha256)).toBe("unusable_secret");
  const short = generateKeyPairSync("rsa", { modulusLength: 1_024 });
  const weak = sign("sha256", content, short.privateKey).toString("base64");
  expect(await of({ algorithm: "rsa_sha256" }, pemOf(short.publicKey), weak)).toBe("unusable_secret");
});

it("takes an integration's own key in place of the description's", async () => {
  const published = pemOf(generateKeyPairSync("ed25519").publicKey);
  const init = { scheme: "public_key", algorithm: "ed25519", header: "x-s", encoding: "base64", publicKey: published };
  const headers = { "x-s": sign(null, Buffer.from(eventBody), ed.privateKey).toString("base64") };
  const proofBy = (secret: string) =>
    prove(create(SignatureRulesSchema, init), vectorOf({ headers, body: eventBody, secret }));
  expect(await proofBy(pemOf(ed.publicKey))).toEqual({ proven: true });
  for (const secret of ["", published]) {
    expect(await proofBy(secret)).toEqual({ proven: false, reason: "wrong_signature" });
  }
  expect(await proofBy("secret")).toEqual({ proven: false, reason: "unusable_secret" });
});

it("takes a public key of Standard Webhooks for no shared key", async () => {
  const rules = create(SignatureRulesSchema, { scheme: "standard_webhooks" });
  const publicText = rawOf(ed.publicKey).toString("base64");
  const secret = `whpk_${publicText}`;
  for (const key of [Buffer.from(publicText, "base64"), Buffer.from(secret, "base64"), Buffer.from(secret)]) {
    const headers = {
      "webhook-id": "m",
      "webhook-timestamp": seconds,
      "webhook-signature": `v1,${hmac(key, `m.${seconds}.${eventBody}`).digest("base64")}`,
    };
    const proof = await prove(rules, vectorOf({ headers, body: eventBody, secret }));
    expect(proof).toEqual({ proven: false, reason: "wrong_signature" });
  }
});

it("requires each element of a list to be signed", async () => {
  const [, init, vector] = vectors.find(([name]) => name.includes("Adyen")) ?? [];
  if (init === undefined || vector === undefined) throw new Error("there is no vector of Adyen");
  const rules = create(SignatureRulesSchema, init);
  const { notificationItems: items } = JSON.parse(vector.body);
  const [first, second] = items;
  const unsigned = { item: { ...second.item, additionalData: {} } };
  const swapped = { item: { ...second.item, additionalData: first.item.additionalData } };
  for (const list of [[first, unsigned], [unsigned, first], [first, swapped], [first, null], [], [first, {}]]) {
    const proof = await prove(rules, { ...vector, body: JSON.stringify({ notificationItems: list }) });
    expect({ list, proven: proof.proven }).toEqual({ list, proven: false });
  }
  const one = await prove(rules, { ...vector, body: JSON.stringify({ notificationItems: [second] }) });
  expect(one.proven).toBe(true);
});

it("holds the age and the hash of a JWT's claims", async () => {
  const rules = create(SignatureRulesSchema, {
    scheme: "jwt_secret",
    header: "x-jwt",
    bodyHashClaim: "request_body_sha256",
    tolerance: { seconds: 300n },
  });
  const hash = createHash("sha256").update(eventBody).digest("hex");
  const reasonOf = async (claims: object) => {
    const headers = { "x-jwt": jwtOf("k", claims) };
    const proof = await prove(rules, vectorOf({ headers, body: eventBody, secret: "k" }));
    return proof.proven ? "proven" : proof.reason;
  };
  const iat = nowMs / 1_000;
  expect(await reasonOf({ iat, request_body_sha256: hash })).toBe("proven");
  expect(await reasonOf({ iat: iat - 301, request_body_sha256: hash })).toBe("too_old");
  expect(await reasonOf({ iat: iat + 61, request_body_sha256: hash })).toBe("from_the_future");
  expect(await reasonOf({ request_body_sha256: hash })).toBe("too_old");
  expect(await reasonOf({ iat, exp: iat - 61, request_body_sha256: hash })).toBe("too_old");
  expect(await reasonOf({ iat, request_body_sha256: hash.replace(/^./, "x") })).toBe("wrong_body");
  expect(await reasonOf({ iat })).toBe("wrong_body");
});

it("proves nothing without a value of the integration that is signed", async () => {
  const [, init, vector] = vectors.find(([name]) => name.includes("PayPal")) ?? [];
  if (init === undefined || vector === undefined) throw new Error("there is no vector of PayPal");
  const proof = await prove(create(SignatureRulesSchema, init), vector, { settings: () => undefined });
  expect(proof).toEqual({ proven: false, reason: "unsigned" });
});

it("refuses lines of fields that a sender may have signed as other fields", async () => {
  const fields = ["Message", "MessageId", "Timestamp", "TopicArn", "Type"];
  const rules = create(SignatureRulesSchema, {
    scheme: "public_key",
    algorithm: "rsa_sha256",
    publicKey: pemOf(rsa.publicKey),
    signaturePath: "Signature",
    encoding: "base64",
    contentFields: fields,
    contentFieldFormat: "name_value_lines",
    identityPath: "TopicArn",
  });
  const textOf = (body: Record<string, string>) => fields.map((name) => `${name}\n${body[name]}\n`).join("");
  const own = { MessageId: "2", Timestamp: "t", TopicArn: "arn:theirs", Type: "Notification" };
  // Anyone may publish this to a topic of their own: its signed text is also that of a notification of our topic.
  const inner = "paid\nMessageId\n1\nTimestamp\nt\nTopicArn\narn:ours\nType\nNotification";
  const signedText = textOf({ Message: inner, ...own });
  const tail = signedText.slice(signedText.indexOf("arn:ours\nType\n") + "arn:ours\nType\n".length, -1);
  const forged = { Message: "paid", MessageId: "1", Timestamp: "t", TopicArn: "arn:ours", Type: tail };
  expect(textOf(forged)).toBe(signedText);
  const signature = (text: string) => sign("sha256", Buffer.from(text), rsa.privateKey).toString("base64");
  const reasonOf = async (body: Record<string, string>) => {
    const text = JSON.stringify({ ...body, Signature: signature(textOf(body)) });
    const proof = await prove(rules, vectorOf({ body: text, secret: "arn:ours" }));
    return proof.proven ? "proven" : proof.reason;
  };
  expect(await reasonOf(forged)).toBe("unsigned");
  const lines = {
    Message: "several\nlines",
    MessageId: "1",
    Timestamp: "t",
    TopicArn: "arn:ours",
    Type: "Notification",
  };
  expect(await reasonOf(lines)).toBe("proven");
});
