import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isSame, sha256 } from "./constant-time.ts";
import { type Proof, type ProofRequest, proven, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";

/** User name and password in the header of HTTP Basic (RFC 7617), which the secret holds as `user:password`. */
export const basic: VerificationScheme = {
  prove: withSecrets(proveBasic),
  needsSecret: () => true,
  signedIdHeader: () => undefined,
};

function proveBasic({ header }: SignatureRules, secrets: readonly string[], { reading }: ProofRequest): Proof {
  const field = reading.header(header || "authorization");
  const [, sent] = /^basic +(.+)$/i.exec(field ?? "") ?? [];
  if (sent === undefined) return unproven("unsigned");
  // An empty password, or no user name at all, would be easy to guess.
  const usable = secrets.filter((secret) => /^[^:]+:.+$/.test(secret));
  if (usable.length === 0) return unproven("unusable_secret");
  const isKnown = usable.some((secret) => isSame(sha256(sent), sha256(Buffer.from(secret).toString("base64"))));
  return isKnown ? proven : unproven("wrong_token");
}
