import { createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../dialect/json-fields.ts";
import { readJson } from "./reading.ts";

/** A parsed but unverified JWT in the compact form of RFC 7515, section 7.1. */
export interface ParsedJwt {
  readonly algorithm: "RS256" | "ES256";
  /** ID of the signing key; undefined: any key of the signer. */
  readonly keyId: string | undefined;
  readonly claims: JsonObject;
  /** The signed content, and its signature. */
  readonly content: Uint8Array;
  readonly signature: Uint8Array;
}

/** A signer's key, from its JWK Set (RFC 7517). */
export type SignerKey = JsonWebKey & { readonly kid?: string; readonly use?: string };

/**
 * Returns undefined if the token is not a JWT, or its algorithm is not supported, such as `none` or one with a shared
 * key.
 */
export function readJwt(token: string): ParsedJwt | undefined {
  const [, head = "", payload = "", signature = ""] = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(token) ?? [];
  const header = objectIn(head);
  const claims = objectIn(payload);
  const { alg, kid, crit } = header ?? {};
  if (claims === undefined || (alg !== "RS256" && alg !== "ES256")) return undefined;
  // RFC 7515, 4.1.11: no critical extension is supported here.
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

/** Keys that can have signed the token. */
export const keysFor = ({ keyId, algorithm }: ParsedJwt, keys: readonly SignerKey[]): readonly SignerKey[] =>
  keys.filter(
    ({ kty, kid, use }) =>
      kty === (algorithm === "RS256" ? "RSA" : "EC") &&
      (use === undefined || use === "sig") &&
      (keyId === undefined || kid === keyId),
  );

export function isSignedBy({ algorithm, content, signature }: ParsedJwt, key: SignerKey): boolean {
  const made = keyOf(key);
  if (made === undefined) return false;
  // RFC 7518, 3.4: an ES256 signature is two concatenated numbers, and its curve is P-256.
  if (algorithm === "ES256" && made.asymmetricKeyDetails?.namedCurve !== "prime256v1") return false;
  return verify("sha256", content, algorithm === "ES256" ? { key: made, dsaEncoding: "ieee-p1363" } : made, signature);
}

function keyOf(key: SignerKey): KeyObject | undefined {
  try {
    return createPublicKey({ key, format: "jwk" });
  } catch {
    // A signature cannot be checked with an unreadable key.
    return undefined;
  }
}

interface ClaimRules {
  /** Empty: any issuer is accepted. */
  readonly issuer: string;
  readonly audience: string;
  readonly nowMs: number;
}

/** Allows for clock differences between the signer and this machine. */
const toleranceS = 60;

/** Returns what is wrong with the claims of a signed token; undefined if they are valid (RFC 7519, section 4.1). */
export function findWrongClaim({ claims }: ParsedJwt, { issuer, audience, nowMs }: ClaimRules) {
  const { iss, aud, exp, nbf } = claims;
  const nowS = nowMs / 1000;
  if (typeof exp !== "number" || exp + toleranceS < nowS) return "too_old" as const;
  if (typeof nbf === "number" && nbf - toleranceS > nowS) return "from_the_future" as const;
  if (issuer !== "" && iss !== issuer) return "wrong_issuer" as const;
  if (audience !== "" && !(Array.isArray(aud) ? aud : [aud]).includes(audience)) return "wrong_audience" as const;
  return undefined;
}
