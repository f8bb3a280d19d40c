import { createHmac } from "node:crypto";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { ParsedJwt } from "../jwt.ts";
import { isSame } from "./constant-time.ts";
import { tokensOf, wrongClaimOf } from "./jwt-tokens.ts";
import { type Proof, type ProofRequest, proven, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";
import { sharedKeyOf } from "./shared-key.ts";

/** A JWT that the provider signs with the secret (HS256, RFC 7518). */
export const sharedJwt: VerificationScheme = {
  prove: withSecrets(proveSharedJwt),
  needsSecret: ({ keyOwner }) => keyOwner === "",
  signedIdHeader: () => undefined,
};

function proveSharedJwt(rules: SignatureRules, secrets: readonly string[], request: ProofRequest): Proof {
  const keys = secrets.map((secret) => sharedKeyOf(rules, secret));
  if (keys.some((key) => key.length === 0)) return unproven("unusable_secret");
  const tokens = tokensOf(rules, request, ["HS256"]);
  if (tokens.length === 0) return unproven("unsigned");
  // The signature first: before it, the claims say nothing.
  if (!tokens.every((token) => keys.some((key) => isSignedWith(token, key)))) return unproven("wrong_signature");
  for (const token of tokens) {
    const wrong = wrongClaimOf(token, rules, request);
    if (wrong !== undefined) return unproven(wrong);
  }
  return proven;
}

const isSignedWith = ({ content, signature }: ParsedJwt, key: Uint8Array): boolean =>
  isSame(createHmac("sha256", key).update(content).digest("base64url"), Buffer.from(signature).toString("base64url"));
