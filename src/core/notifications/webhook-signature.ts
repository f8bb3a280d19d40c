import { createHmacKey, type Hmac } from "../../base/hmac.ts";

/** An attempt to deliver a webhook. */
export interface SignableWebhook {
  /** The same for every attempt; the application uses it to detect duplicates. */
  readonly id: string;
  /** Time of this attempt, so that an application can refuse old recordings. */
  readonly timestampMs: number;
  /** The body exactly as sent. */
  readonly body: Uint8Array;
  /** Newest first; at least one, and each passes `signingSecretMistake`. */
  readonly secrets: readonly string[];
}

const prefix = "whsec_";
/** Key lengths of Standard Webhooks. */
const minKeyBytes = 24;
const maxKeyBytes = 64;

/**
 * Header fields by which an application verifies a webhook: those of Standard Webhooks 1.0.0, signed with every secret,
 * and the one that the SDK's `verifyIncomingWebhookRequest` checks, which has room only for the newest secret.
 */
export function signatureFields({ id, timestampMs, body, secrets }: SignableWebhook): Record<string, string> {
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
    // The SDK uses the secret's text as the key, including the prefix.
    "x-nango-hmac-sha256": Buffer.from(hmacsOf(newest).byText.of(body), "latin1").toString("hex"),
  };
}

interface Hmacs {
  readonly bySecret: Hmac;
  readonly byText: Hmac;
}

/** Caches the keys of the few secrets that sign everything. */
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

/** Writes a key in the text form of a secret. */
export const signingSecretOf = (key: Uint8Array): string => prefix + Buffer.from(key).toString("base64");

/** Says what is wrong with a secret that was made elsewhere; never quotes it. */
export function signingSecretMistake(secret: string): string | undefined {
  if (!secret.startsWith(prefix)) return `must begin with ${prefix}`;
  const key = keyIn(secret);
  // Some verifying libraries decode leniently and some strictly: accept only the form that all of them read alike.
  if (signingSecretOf(key) !== secret) return `must be ${prefix} followed by padded base64`;
  return key.length < minKeyBytes || key.length > maxKeyBytes
    ? `must be ${prefix} followed by base64 of ${minKeyBytes} to ${maxKeyBytes} bytes, but has ${key.length} bytes`
    : undefined;
}

const keyIn = (secret: string): Buffer => Buffer.from(secret.slice(prefix.length), "base64");
