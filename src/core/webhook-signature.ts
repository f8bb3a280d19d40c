import { createHmac } from "node:crypto";

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
    const signature = createHmac("sha256", keyIn(secret)).update(`${id}.${timestamp}.`).update(body).digest("base64");
    return `v1,${signature}`;
  });
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signatures.join(" "),
    // The SDK takes the secret as the text it is, prefix and all.
    "x-nango-hmac-sha256": createHmac("sha256", newest).update(body).digest("hex"),
  };
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
