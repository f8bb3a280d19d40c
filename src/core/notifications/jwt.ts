import { createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../dialect/json-fields.ts";
import { readJson } from "./reading.ts";

/** A JWT in the compact form of RFC 7515, section 7.1, that nobody has believed yet. */
export interface ReadJwt {
  readonly algorithm: "RS256" | "ES256";
  /** Of the key that made it; undefined: any of the signer's. */
  readonly keyId: string | undefined;
  readonly claims: JsonObject;
  /** What was signed, and the signature. */
  readonly content: Uint8Array;
  readonly signature: Uint8Array;
}

/** One of a signer's keys, as its JWK Set has it (RFC 7517). */
export type SignerKey = JsonWebKey & { readonly kid?: string; readonly use?: string };

/** Undefined: it is none, or one whose algorithm is not taken, such as `none` or one with a shared key. */
export function readJwt(token: string): ReadJwt | undefined {
  const [, head = "", payload = "", signature = ""] = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(token) ?? [];
  const header = objectIn(head);
  const claims = objectIn(payload);
  const { alg, kid, crit } = header ?? {};
  if (claims === undefined || (alg !== "RS256" && alg !== "ES256")) return undefined;
  // RFC 7515, 4.1.11: what must be understood is not understood here.
  if (crit !== undefined) return undefined;
  return {
    algorithm: alg,
    keyId: typeof kid === "string" ? kid : undefined,
    claims,
    content: Buffer.from(`${head}.${payload}`, "latin1"),
    signature: Buffer.from(signature, "base64url"),
  };
}

function objectIn(part: string): JsonObject | undefined {
  const value = readJson(Buffer.from(part, "base64url"))?.value;
  return isObject(value) ? value : undefined;
}

/** Those that can have made it. */
export const keysFor = ({ keyId, algorithm }: ReadJwt, keys: readonly SignerKey[]): readonly SignerKey[] =>
  keys.filter(
    ({ kty, kid, use }) =>
      kty === (algorithm === "RS256" ? "RSA" : "EC") &&
      (use === undefined || use === "sig") &&
      (keyId === undefined || kid === keyId),
  );

export function isSignedBy({ algorithm, content, signature }: ReadJwt, key: SignerKey): boolean {
  const made = keyOf(key);
  if (made === undefined) return false;
  // RFC 7518, 3.4: of ES256 the two numbers one after the other, and the curve is P-256.
  if (algorithm === "ES256" && made.asymmetricKeyDetails?.namedCurve !== "prime256v1") return false;
  return verify("sha256", content, algorithm === "ES256" ? { key: made, dsaEncoding: "ieee-p1363" } : made, signature);
}

function keyOf(key: SignerKey): KeyObject | undefined {
  try {
    return createPublicKey({ key, format: "jwk" });
  } catch {
    // A key that cannot be read has signed nothing that could be checked.
    return undefined;
  }
}

interface ClaimRules {
  /** Empty: whoever. */
  readonly issuer: string;
  readonly audience: string;
  readonly nowMs: number;
}

/** By a clock that is not quite ours. */
const toleranceS = 60;

/** What is wrong with the claims of a token that is signed; undefined: nothing (RFC 7519, section 4.1). */
export function wrongClaim({ claims }: ReadJwt, { issuer, audience, nowMs }: ClaimRules) {
  const { iss, aud, exp, nbf } = claims;
  const nowS = nowMs / 1000;
  if (typeof exp !== "number" || exp + toleranceS < nowS) return "too_old" as const;
  if (typeof nbf === "number" && nbf - toleranceS > nowS) return "from_the_future" as const;
  if (issuer !== "" && iss !== issuer) return "wrong_issuer" as const;
  if (audience !== "" && !(Array.isArray(aud) ? aud : [aud]).includes(audience)) return "wrong_audience" as const;
  return undefined;
}
