import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isSignedBy, keysFor, type ParsedJwt, publicAlgorithms, type SignerKey } from "../jwt.ts";
import { senderKeyTarget } from "../sender-key.ts";
import { tokensOf, wrongClaimOf } from "./jwt-tokens.ts";
import { type Proof, type ProofRequest, proven, secretsIn, unproven, type VerificationScheme } from "./scheme.ts";

/** A JWT that the provider signs with one of its published keys. */
export const signedJwt: VerificationScheme = {
  prove: proveJwt,
  needsSecret: ({ identityClaim }) => identityClaim !== "",
  signedIdHeader: () => undefined,
};

async function proveJwt(rules: SignatureRules, request: ProofRequest): Promise<Proof> {
  const { identityClaim } = rules;
  const secrets = secretsIn(request.secret);
  // The issuer's keys sign tokens for anyone, so the identity must match one of the secrets.
  if (identityClaim !== "" && secrets.length === 0)
    return unproven(request.secret === "" ? "no_secret" : "unusable_secret");
  const tokens = tokensOf(rules, request, publicAlgorithms);
  if (tokens.length === 0) return unproven("unsigned");
  // Check the claims first: no keys are fetched for a token that would be refused anyway.
  for (const token of tokens) {
    const wrong = wrongClaimOf(token, rules, request);
    if (wrong !== undefined) return unproven(wrong);
    const identity = identityClaim === "" ? undefined : token.claims[identityClaim];
    if (identityClaim !== "" && !(typeof identity === "string" && secrets.includes(identity))) {
      return unproven("wrong_identity");
    }
  }
  for (const token of tokens) {
    const keys = keysFor(token, await keysOf(token, rules, request));
    if (keys.length === 0) return unproven("unknown_key");
    if (!keys.some((key) => isSignedBy(token, key))) return unproven("wrong_signature");
  }
  return proven;
}

async function keysOf(
  token: ParsedJwt,
  { jwksUrl, keyRequest }: SignatureRules,
  request: ProofRequest,
): Promise<readonly SignerKey[]> {
  if (keyRequest === undefined) return request.keys(jwksUrl);
  const target = senderKeyTarget(keyRequest, request, token.keyId);
  const key = target === undefined ? undefined : await request.senderKey?.(target, undefined);
  if (key === undefined) return [];
  // The response may hold the key under another ID than the one that named it.
  return [{ ...key.export({ format: "jwk" }), ...(token.keyId === undefined ? {} : { kid: token.keyId }) }];
}
