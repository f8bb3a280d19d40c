import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { findWrongClaim, isSignedBy, keysFor, readJwt } from "../jwt.ts";
import { type Proof, type ProofRequest, proven, secretsIn, unproven, type VerificationScheme } from "./scheme.ts";

/** A JWT that the provider signs with one of its published keys. */
export const signedJwt: VerificationScheme = {
  prove: proveJwt,
  needsSecret: ({ identityClaim }) => identityClaim !== "",
  signedIdHeader: () => undefined,
};

async function proveJwt(rules: SignatureRules, request: ProofRequest): Promise<Proof> {
  const { prefix, issuer, audience, identityClaim, jwksUrl } = rules;
  const { reading, url, nowMs } = request;
  const secrets = secretsIn(request.secret);
  // The issuer's keys sign tokens for anyone, so the identity must match one of the secrets.
  if (identityClaim !== "" && secrets.length === 0)
    return unproven(request.secret === "" ? "no_secret" : "unusable_secret");
  const field = reading.header(rules.header);
  const token = field?.startsWith(prefix) === true ? readJwt(field.slice(prefix.length)) : undefined;
  if (token === undefined) return unproven("unsigned");
  // Check the claims first: no keys are fetched for a token that would be refused anyway.
  const wrong = findWrongClaim(token, { issuer, audience: audience.replaceAll("${url}", () => url), nowMs });
  if (wrong !== undefined) return unproven(wrong);
  const identity = identityClaim === "" ? undefined : token.claims[identityClaim];
  if (identityClaim !== "" && !(typeof identity === "string" && secrets.includes(identity))) {
    return unproven("wrong_identity");
  }
  const keys = keysFor(token, await request.keys(jwksUrl));
  if (keys.length === 0) return unproven("unknown_key");
  return keys.some((key) => isSignedBy(token, key)) ? proven : unproven("wrong_signature");
}
