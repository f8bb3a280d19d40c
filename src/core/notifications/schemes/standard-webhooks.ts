import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isSame } from "./constant-time.ts";
import { type Proof, type ProofRequest, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";
import { inTime, maxParts, signed, toleranceMs } from "./signature.ts";

const idHeaderOf = ({ idHeader }: SignatureRules): string => idHeader || "webhook-id";
const defaultToleranceMs = 300_000;

/** Standard Webhooks 1.0.0. Asymmetric signatures (`v1a`) are not checked. */
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
  const keys = secrets.map((secret) => Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
  if (keys.some((key) => key.length === 0)) return unproven("unusable_secret");
  const sent = signatures
    .split(" ", maxParts)
    .filter((one) => one.startsWith("v1,"))
    .map((one) => one.slice("v1,".length));
  const content = [Buffer.from(`${id}.${timestamp}.`), reading.received.body];
  const made = keys.map((key) => signed({ hash: "sha256", key, content }).toString("base64"));
  if (!made.some((one) => sent.some((other) => isSame(one, other)))) return unproven("wrong_signature");
  return inTime({ timestamp, unit: "s", toleranceMs: toleranceMs(rules) ?? defaultToleranceMs, nowMs });
}
