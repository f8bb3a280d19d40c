import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isSame, sha256 } from "./constant-time.ts";
import { type Proof, type ProofRequest, proven, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";

/** The secret itself, in a header, the query or the body. */
export const sharedToken: VerificationScheme = {
  prove: withSecrets(proveToken),
  needsSecret: () => true,
  signedIdHeader: () => undefined,
};

function proveToken(rules: SignatureRules, secrets: readonly string[], { reading }: ProofRequest): Proof {
  const { header, query, body, prefix } = rules;
  const tokens =
    header !== "" ? [reading.header(header)] : query !== "" ? [reading.query(query)] : reading.textsAt(body);
  if (tokens.length === 0 || tokens.every((token) => token === undefined)) return unproven("unsigned");
  // All tokens must match: if one body holds several notifications, a single known token must not vouch for the others.
  const isKnown = (token: string | undefined) =>
    token?.startsWith(prefix) === true &&
    secrets.some((secret) => isSame(sha256(token.slice(prefix.length)), sha256(secret)));
  return tokens.every(isKnown) ? proven : unproven("wrong_token");
}
