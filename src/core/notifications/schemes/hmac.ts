import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isChallengeContent } from "../challenge-text.ts";
import { isSame } from "./constant-time.ts";
import { type Proof, type ProofRequest, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";
import { sharedKeyOf } from "./shared-key.ts";
import { inTime, signed, toleranceMs } from "./signature.ts";
import { signedMessagesOf } from "./signed-message.ts";

/** An HMAC over the body, and whatever else the rules name. */
export const hmac: VerificationScheme = {
  prove: withSecrets(proveHmac),
  needsSecret: ({ keyOwner }) => keyOwner === "",
  signedIdHeader: () => undefined,
};

function proveHmac(rules: SignatureRules, secrets: readonly string[], request: ProofRequest): Proof {
  const sent = signedMessagesOf(rules, request);
  if (sent === undefined) return unproven("unsigned");
  if (request.refusesChallenges === true && sent.messages.some(({ content }) => isChallengeContent(content))) {
    return unproven("wrong_signature");
  }
  const keys = secrets.map((secret) => sharedKeyOf(rules, secret));
  if (keys.some((key) => key.length === 0)) return unproven("unusable_secret");
  const encoding = rules.encoding === "base64" ? "base64" : "hex";
  const areAll = sent.messages.every(({ content, signatures }) => {
    const made = keys.map((key) => signed({ hash: rules.hash, key, content }).toString(encoding));
    const wanted = encoding === "hex" ? signatures.map((one) => one.toLowerCase()) : signatures;
    return made.some((one) => wanted.some((other) => isSame(one, other)));
  });
  if (!areAll) return unproven("wrong_signature");
  const { timestamp } = sent;
  return inTime({ timestamp, unit: rules.timestampUnit, toleranceMs: toleranceMs(rules), nowMs: request.nowMs });
}
