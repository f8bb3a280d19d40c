import { Nango } from "@nangohq/node";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type SignableWebhook,
  signatureFields,
  signingSecretOf,
} from "../../src/core/notifications/webhook-signature.ts";

const now = Date.parse("2026-01-01T00:00:00.500Z");
const newest = signingSecretOf(Buffer.from("the newest secret, thirty-two b."));
const former = signingSecretOf(Buffer.from("the former one: only 24."));
const foreign = signingSecretOf(Buffer.alloc(64, 9));
/** Its length in bytes differs from that in characters. */
const body = Buffer.from(JSON.stringify({ from: "calendar", type: "forward", payload: { who: "Ada Lövelace ☃" } }));

const sign = (more: Partial<SignableWebhook> = {}) =>
  signatureFields({ id: "msg_1", timestampMs: now, body, secrets: [newest], ...more });

type Fields = Record<string, string>;
/** Whether a library with this secret accepts a webhook. */
type Verifies = (secret: string, payload: Buffer, fields: Fields) => boolean;

const accepts = (verify: () => unknown): boolean => {
  try {
    verify();
    return true;
  } catch (error) {
    // Any other error is a wrong use of the library.
    if ((error as Error).name !== "WebhookVerificationError") throw error;
    return false;
  }
};
const standard: readonly (readonly [string, Verifies])[] = [
  [
    "standardwebhooks",
    (secret, payload, fields) => accepts(() => new StandardWebhook(secret).verify(payload.toString(), fields)),
  ],
  ["svix", (secret, payload, fields) => accepts(() => new SvixWebhook(secret).verify(payload, fields))],
];
const nango: Verifies = (secret, payload, fields) =>
  new Nango({ secretKey: "unused", webhookSigningKey: secret }).verifyIncomingWebhookRequest(
    payload.toString(),
    fields,
  );
const all: typeof standard = [...standard, ["@nangohq/node", nango]];

beforeEach(() => vi.useFakeTimers({ now, toFake: ["Date"] }));
afterEach(() => vi.useRealTimers());

describe.each(all)("W21 %s", (_name, verifies) => {
  it("accepts latchkey's signature", () => {
    expect(verifies(newest, body, sign())).toBe(true);
    expect(verifies(foreign, body, sign())).toBe(false);
  });

  it("refuses a webhook with one changed byte", () => {
    const fields = sign();
    for (let i = 0; i < body.length; i += 1) {
      const changed = Buffer.from(body);
      changed[i] = (changed[i] ?? 0) ^ 1;
      expect({ i, taken: verifies(newest, changed, fields) }).toEqual({ i, taken: false });
    }
    expect(verifies(newest, Buffer.concat([body, Buffer.from(" ")]), fields)).toBe(false);
  });

  it("takes the newest of two secrets", () => {
    expect(verifies(newest, body, sign({ secrets: [newest, former] }))).toBe(true);
  });
});

describe.each(standard)("W21 %s", (_name, verifies) => {
  it("accepts the former secret until it signs no longer", () => {
    expect(verifies(former, body, sign({ secrets: [newest, former] }))).toBe(true);
    expect(verifies(former, body, sign({ secrets: [newest] }))).toBe(false);
  });

  it("takes five secrets, each of them", () => {
    const secrets = [1, 2, 3, 4, 5].map((n) => signingSecretOf(Buffer.alloc(32, n)));
    expect(secrets.map((secret) => verifies(secret, body, sign({ secrets })))).toEqual(Array(5).fill(true));
  });

  it("takes no other id, no other time and no other signature", () => {
    const fields = sign();
    const flipped = fields["webhook-signature"]?.replace(/.=$/, (end) => `${end[0] === "A" ? "E" : "A"}=`) ?? "";
    for (const change of [
      { "webhook-id": "msg_2" },
      { "webhook-timestamp": "1767225601" },
      { "webhook-signature": flipped },
    ]) {
      expect({ change, taken: verifies(newest, body, { ...fields, ...change }) }).toEqual({ change, taken: false });
    }
  });

  it("takes an attempt of five minutes ago, or of a clock that is as much ahead, and no other", () => {
    const taken = (offsetMs: number) => verifies(newest, body, sign({ timestampMs: now + offsetMs }));
    expect([-301_000, -300_000, 0, 300_000, 301_000].map(taken)).toEqual([false, true, true, true, false]);
  });
});

it("W21 the SDK accepts the newest of its environment's signatures, whatever the former secret", () => {
  expect(nango(former, body, sign({ secrets: [newest, former] }))).toBe(false);
});
