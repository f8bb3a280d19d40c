import { createHmacKey, type Hmac } from "../../base/hmac.ts";

/** One attempt to deliver a webhook. */
export interface ToSign {
  /** The same for every attempt: what the application tells duplicates by. */
  readonly id: string;
  /** Of this attempt, so that an application may refuse what was recorded long ago. */
  readonly timestampMs: number;
  /** Exactly as it is sent. */
  readonly body: Uint8Array;
  /** The newest first; at least one, each of which `signingSecretMistake` has nothing against. */
  readonly secrets: readonly string[];
}

const prefix = "whsec_";
/** As Standard Webhooks has it. */
const minKeyBytes = 24;
const maxKeyBytes = 64;

/**
 * What an application verifies a webhook by: the fields of Standard Webhooks 1.0.0, which every secret signs, and the
 * one that the SDK's `verifyIncomingWebhookRequest` looks at, which has room for the newest alone.
 */
export function signatureFields({ id, timestampMs, body, secrets }: ToSign): Record<string, string> {
  const [newest] = secrets;
  if (newest === undefined) throw new Error("a webhook is signed with at least one secret");
  const timestamp = String(Math.floor(timestampMs / 1_000));
  const signatures = secrets.map((secret) => {
    const signature = hmacsOf(secret).bySecret.of(`${id}.${timestamp}.`, body);
    return `v1,${Buffer.from(signature, "latin1").toString("base64")}`;
  });
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signatures.join(" "),
    // The SDK takes the secret as the text it is, prefix and all.
    "x-nango-hmac-sha256": Buffer.from(hmacsOf(newest).byText.of(body), "latin1").toString("hex"),
  };
}

interface Hmacs {
  readonly bySecret: Hmac;
  readonly byText: Hmac;
}

/** The same few sign everything. */
const known = new Map<string, Hmacs>();
const maxKnown = 100;

function hmacsOf(secret: string): Hmacs {
  const before = known.get(secret);
  if (before !== undefined) return before;
  const made = { bySecret: createHmacKey(keyIn(secret)), byText: createHmacKey(Buffer.from(secret)) };
  if (known.size >= maxKnown) known.clear();
  known.set(secret, made);
  return made;
}

/** As a secret is written. */
export const signingSecretOf = (key: Uint8Array): string => prefix + Buffer.from(key).toString("base64");

/** What is wrong with a secret that somebody else made; the sentence does not quote it. */
export function signingSecretMistake(secret: string): string | undefined {
  if (!secret.startsWith(prefix)) return `must begin with ${prefix}`;
  const key = keyIn(secret);
  // Some libraries that verify decode leniently and some do not: what all of them read alike is the one form.
  if (signingSecretOf(key) !== secret) return `must be ${prefix} and base64 with its padding`;
  return key.length < minKeyBytes || key.length > maxKeyBytes
    ? `must be base64 of ${minKeyBytes} to ${maxKeyBytes} bytes, and is of ${key.length}`
    : undefined;
}

const keyIn = (secret: string): Buffer => Buffer.from(secret.slice(prefix.length), "base64");
