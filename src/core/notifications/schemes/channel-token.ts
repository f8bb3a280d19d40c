import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isSame, sha256 } from "./constant-time.ts";
import { type Proof, type ProofRequest, proven, secretsIn, unproven, type VerificationScheme } from "./scheme.ts";

/** The token that Latchkey generated for the channel, or the integration's secret for a channel of a script. */
export const channelToken: VerificationScheme = {
  prove: proveChannel,
  needsSecret: () => false,
  signedIdHeader: () => undefined,
};

function proveChannel({ header }: SignatureRules, { reading, secret, expected }: ProofRequest): Proof {
  if (expected === undefined && secret === "") return unproven("no_secret");
  const token = reading.header(header);
  if (token === undefined) return unproven("unsigned");
  const wanted = expected === undefined ? secretsIn(secret).map(sha256) : [expected];
  return wanted.some((one) => isSame(sha256(token), one)) ? proven : unproven("wrong_token");
}
