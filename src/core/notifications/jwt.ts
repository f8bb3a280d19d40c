import { createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../dialect/json-fields.ts";
import { readJson } from "./reading.ts";

export type JwtAlgorithm = "RS256" | "ES256" | "HS256";

/** Algorithms of published keys. One with a shared key must never be among them: the published key would be it. */
export const publicAlgorithms: readonly JwtAlgorithm[] = ["RS256", "ES256"];

/** A parsed but unverified JWT in the compact form of RFC 7515, section 7.1. */
export interface ParsedJwt<A extends string = JwtAlgorithm> {
  readonly algorithm: A;
  /** ID of the signing key; undefined: any key of the signer. */
  readonly keyId: string | undefined;
  /** `typ`, which tells tokens of one issuer apart (RFC 8725, section 3.11). */
  readonly type: string | undefined;
  readonly claims: JsonObject;
  /** The signed content, and its signature. */
  readonly content: Uint8Array;
  readonly signature: Uint8Array;
}

/** A signer's key, from its JWK Set (RFC 7517). */
export type SignerKey = JsonWebKey & { readonly kid?: string; readonly use?: string };

/** Returns undefined if the token is not a JWT, or its algorithm is not one of these, such as `none`. */
export function readJwt<A extends string>(token: string, algorithms: readonly A[]): ParsedJwt<A> | undefined {
  const [, head = "", payload = "", signature = ""] = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(token) ?? [];
  const header = objectIn(head);
  const claims = objectIn(payload);
  const { alg, kid, typ, crit } = header ?? {};
  const algorithm = algorithms.find((known) => known === alg);
  if (claims === undefined || algorithm === undefined) return undefined;
  // RFC 7515, 4.1.11: no critical extension is supported here.
  if (crit !== undefined) return undefined;
  const bytes = Buffer.from(signature, "base64url");
  // Only one text encodes a signature: another would be another token to a cache of used tokens.
  if (bytes.toString("base64url") !== signature) return undefined;
  return {
    algorithm,
    keyId: typeof kid === "string" ? kid : undefined,
    type: typeof typ === "string" ? typ : undefined,
    claims,
    content: Buffer.from(`${head}.${payload}`, "latin1"),
    signature: bytes,
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
  /** Maximum age of `iat`; undefined: any. */
  readonly maxAgeMs: number | undefined;
  /** The token may lack an expiry: it binds a body by its hash, or is signed with a secret of ours alone. */
  readonly mayLackEnd: boolean;
  readonly nowMs: number;
}

/** Allows for clock differences between the signer and this machine. */
const toleranceS = 60;

/** Returns what is wrong with the claims of a signed token; undefined if they are valid (RFC 7519, section 4.1). */
export function findWrongClaim({ claims }: Pick<ParsedJwt, "claims">, rules: ClaimRules) {
  const { issuer, audience, maxAgeMs, nowMs } = rules;
  const { iss, aud, exp, nbf, iat } = claims;
  const nowS = nowMs / 1000;
  const mayLackEnd = rules.mayLackEnd && exp === undefined;
  if (!mayLackEnd && (typeof exp !== "number" || exp + toleranceS < nowS)) return "too_old" as const;
  if (maxAgeMs !== undefined) {
    if (typeof iat !== "number" || nowMs - iat * 1000 > maxAgeMs) return "too_old" as const;
    if (iat - toleranceS > nowS) return "from_the_future" as const;
  }
  if (typeof nbf === "number" && nbf - toleranceS > nowS) return "from_the_future" as const;
  if (issuer !== "" && iss !== issuer) return "wrong_issuer" as const;
  if (audience !== "" && !(Array.isArray(aud) ? aud : [aud]).includes(audience)) return "wrong_audience" as const;
  return undefined;
}
