import { createHash } from "node:crypto";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { findWrongClaim, type JwtAlgorithm, type ParsedJwt, readJwt } from "../jwt.ts";
import { isSame } from "./constant-time.ts";
import type { ProofFailure, ProofRequest } from "./scheme.ts";
import { toleranceMs } from "./signature.ts";

/** More tokens than any provider puts in one body. */
const maxTokens = 100;

/** Returns the JWTs of a notification, which must all be valid; empty if one is missing or is none. */
export function tokensOf(
  { header, body, prefix }: SignatureRules,
  { reading }: ProofRequest,
  algorithms: readonly JwtAlgorithm[],
): readonly ParsedJwt[] {
  const texts = header !== "" ? [reading.header(header)] : reading.textsAt(body);
  if (texts.length > maxTokens) return [];
  const tokens: ParsedJwt[] = [];
  for (const text of texts) {
    const token = text?.startsWith(prefix) === true ? readJwt(text.slice(prefix.length), algorithms) : undefined;
    if (token === undefined) return [];
    tokens.push(token);
  }
  return tokens;
}

/** Returns what is wrong with the claims of a token; undefined if they are those of this notification. */
export function wrongClaimOf(token: ParsedJwt, rules: SignatureRules, request: ProofRequest): ProofFailure | undefined {
  const { issuer, bodyHashClaim } = rules;
  const { url, nowMs, settings } = request;
  let isMissing = false;
  const audience = rules.audience.replace(/\$\{([^}]+)\}/g, (_, name: string) => {
    const value = name === "url" ? url : settings?.(name.replace(/^integration\./, ""));
    isMissing ||= value === undefined || value === "";
    return value ?? "";
  });
  // Without the value, a token for anyone would be for us.
  if (isMissing) return "wrong_audience";
  const isOfBody = bodyHashClaim !== "";
  const wrong = findWrongClaim(token, {
    issuer,
    audience,
    maxAgeMs: toleranceMs(rules),
    mayLackEnd: isOfBody || rules.scheme === "jwt_secret",
    nowMs,
  });
  if (wrong !== undefined || !isOfBody) return wrong;
  return isHashOfBody(token, rules, request) ? undefined : "wrong_body";
}

function isHashOfBody({ claims }: ParsedJwt, rules: SignatureRules, { reading }: ProofRequest): boolean {
  const { bodyHashClaim, bodyHashEncoding } = rules;
  const claimed = claims[bodyHashClaim];
  if (typeof claimed !== "string") return false;
  const hash = createHash("sha256").update(reading.received.body);
  if (bodyHashEncoding === "base64") return isSame(hash.digest("base64"), claimed);
  if (bodyHashEncoding === "base64url") return isSame(hash.digest("base64url"), claimed);
  return isSame(hash.digest("hex"), claimed.toLowerCase());
}
