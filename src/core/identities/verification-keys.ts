import { constants, createPublicKey, type KeyObject, verify } from "node:crypto";
import { isObject } from "../dialect/json-fields.ts";
import type { ParsedJwt, SignerKey } from "../notifications/jwt.ts";

/**
 * Algorithms of tokens that prove an identity (RFC 7518, RFC 8037). All have a public key. One with a shared key must
 * never be among them: the published key would be its secret.
 */
export const tokenAlgorithms = ["RS256", "ES256", "PS256", "ES384", "EdDSA"] as const;
export type TokenAlgorithm = (typeof tokenAlgorithms)[number];

/** Purpose of a key in its set: `jwt-svid` is that of SPIFFE trust bundles. */
export type KeyUse = "sig" | "jwt-svid";

/** A key that verifies tokens, ready to use. */
export interface VerificationKey {
  readonly keyId: string;
  readonly algorithms: readonly TokenAlgorithm[];
  readonly key: KeyObject;
}

const maxKeys = 100;
/** Shorter RSA keys can be factored. */
const minRsaBits = 2_048;

/** Returns the usable keys of a JWK Set (RFC 7517). Throws if the text is none. */
export function keysIn(text: string, uses: readonly KeyUse[] = ["sig"]): readonly VerificationKey[] {
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch {
    throw new Error("the key set is not JSON");
  }
  const keys = isObject(set) ? set["keys"] : undefined;
  if (!Array.isArray(keys)) throw new Error("the key set has no list `keys`");
  const usable = keys
    .slice(0, maxKeys)
    .flatMap((key) => (isObject(key) ? (usableKey(key as SignerKey, uses) ?? []) : []));
  if (usable.length === 0) {
    throw new Error("the key set has no RSA key of 2048 bits, P-256, P-384 or Ed25519 key with a `kid`");
  }
  return usable;
}

function usableKey({ kid, use, alg, ...parts }: SignerKey, uses: readonly KeyUse[]): VerificationKey | undefined {
  if (typeof kid !== "string" || kid === "") return undefined;
  if (use !== undefined && !uses.some((one) => one === use)) return undefined;
  try {
    const key = createPublicKey({ key: { ...parts, kty: parts.kty ?? "" }, format: "jwk" });
    const algorithms = algorithmsOf(key).filter((one) => alg === undefined || one === alg);
    return algorithms.length === 0 ? undefined : { keyId: kid, algorithms, key };
  } catch {
    // Unreadable, or of a kind that is not supported here.
    return undefined;
  }
}

function algorithmsOf({
  asymmetricKeyType: type,
  asymmetricKeyDetails: details,
}: KeyObject): readonly TokenAlgorithm[] {
  if (type === "rsa") return (details?.modulusLength ?? 0) >= minRsaBits ? ["RS256", "PS256"] : [];
  if (type === "ed25519") return ["EdDSA"];
  if (type !== "ec") return [];
  if (details?.namedCurve === "prime256v1") return ["ES256"];
  return details?.namedCurve === "secp384r1" ? ["ES384"] : [];
}

/** Verifies a signature. The key decides which algorithms count, not the token. */
export function isSignedWith(token: ParsedJwt<TokenAlgorithm>, { algorithms, key }: VerificationKey): boolean {
  const { algorithm, content, signature } = token;
  if (!algorithms.includes(algorithm)) return false;
  switch (algorithm) {
    case "RS256":
      return verify("sha256", content, key, signature);
    case "PS256":
      return verify("sha256", content, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }, signature);
    // RFC 7518, 3.4: the signature is two concatenated numbers.
    case "ES256":
      return verify("sha256", content, { key, dsaEncoding: "ieee-p1363" }, signature);
    case "ES384":
      return verify("sha384", content, { key, dsaEncoding: "ieee-p1363" }, signature);
    case "EdDSA":
      return verify(null, content, key, signature);
  }
}
