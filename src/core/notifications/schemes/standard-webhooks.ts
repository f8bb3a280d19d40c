import type { KeyObject } from "node:crypto";
import { isSignedByKey, readPublicKey, signatureBytes } from "../../../base/crypto/public-keys.ts";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isSame } from "./constant-time.ts";
import { type Proof, type ProofRequest, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";
import { inTime, maxParts, signed, toleranceMs } from "./signature.ts";

const idHeaderOf = ({ idHeader }: SignatureRules): string => idHeader || "webhook-id";
const publicKeyPrefix = "whpk_";
const isPublic = (secret: string): boolean => secret.startsWith(publicKeyPrefix);
const defaultToleranceMs = 300_000;

/** Standard Webhooks 1.0.0, with shared keys (`v1`) and public keys (`v1a`). */
export const standardWebhooks: VerificationScheme = {
  prove: withSecrets(proveStandard),
  needsSecret: () => true,
  signedIdHeader: idHeaderOf,
};

function proveStandard(rules: SignatureRules, secrets: readonly string[], { reading, nowMs }: ProofRequest): Proof {
  const id = reading.header(idHeaderOf(rules));
  const timestamp = reading.header(rules.timestampHeader || "webhook-timestamp");
  const signatures = reading.header(rules.header || "webhook-signature");
  if (!id || !timestamp || !signatures) return unproven("unsigned");
  const sent = signatures.split(" ", maxParts);
  const named = (version: string) =>
    sent.filter((one) => one.startsWith(`${version},`)).map((one) => one.slice(version.length + 1));
  const content = [Buffer.from(`${id}.${timestamp}.`), reading.received.body];
  // A public key is never used as a shared key: everyone knows it.
  const [open, shared] = [secrets.filter(isPublic), secrets.filter((secret) => !isPublic(secret))];
  // A line may be a token of another way of proof.
  const keys = shared
    .map((secret) => Buffer.from(secret.replace(/^whsec_/, ""), "base64"))
    .filter((key) => key.length > 0);
  const publicKeys = open.map((secret) => readPublicKey("ed25519", secret.slice(publicKeyPrefix.length), "base64"));
  if (keys.length + publicKeys.length === 0 || publicKeys.includes(undefined)) return unproven("unusable_secret");
  const made = keys.map((key) => signed({ hash: "sha256", key, content }).toString("base64"));
  const isShared = made.some((one) => named("v1").some((other) => isSame(one, other)));
  if (!isShared && !publicKeys.some((key) => isSignedPublicly(key, content, named("v1a")))) {
    return unproven("wrong_signature");
  }
  return inTime({ timestamp, unit: "s", toleranceMs: toleranceMs(rules) ?? defaultToleranceMs, nowMs });
}

const isSignedPublicly = (
  key: KeyObject | undefined,
  content: readonly Uint8Array[],
  signatures: readonly string[],
): boolean =>
  signatures.some((text) => {
    const signature = signatureBytes(text, "base64");
    return (
      key !== undefined && signature !== undefined && isSignedByKey({ algorithm: "ed25519", key, content, signature })
    );
  });
