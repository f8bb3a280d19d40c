import { createPublicKey, type KeyObject, verify } from "node:crypto";

/** Algorithms of `public_key`. */
export const publicKeyAlgorithms = [
  "ed25519",
  "ecdsa_p256_sha256",
  "ecdsa_p256_sha1",
  "rsa_sha256",
  "rsa_sha1",
] as const;
export type PublicKeyAlgorithm = (typeof publicKeyAlgorithms)[number];

export const publicKeyAlgorithmOf = (name: string): PublicKeyAlgorithm | undefined =>
  publicKeyAlgorithms.find((known) => known === name);

interface AsymmetricSignature {
  readonly algorithm: PublicKeyAlgorithm;
  readonly key: KeyObject;
  readonly content: readonly Uint8Array[];
  readonly signature: Uint8Array;
}

export function isSignedByKey({ algorithm, key, content, signature }: AsymmetricSignature): boolean {
  const [only] = content;
  const bytes = content.length === 1 && only !== undefined ? only : Buffer.concat(content);
  switch (algorithm) {
    case "ed25519":
      return verify(null, bytes, key, signature);
    case "ecdsa_p256_sha256":
      return verify("sha256", bytes, { key, dsaEncoding: "der" }, signature);
    case "ecdsa_p256_sha1":
      return verify("sha1", bytes, { key, dsaEncoding: "der" }, signature);
    case "rsa_sha256":
      return verify("sha256", bytes, key, signature);
    case "rsa_sha1":
      return verify("sha1", bytes, key, signature);
  }
}

const isOfCurve = (algorithm: PublicKeyAlgorithm | undefined): boolean =>
  algorithm === "ecdsa_p256_sha256" || algorithm === "ecdsa_p256_sha1";

/** Shorter RSA keys can be factored. */
const minRsaBits = 2_048;

/** Reports whether a key is one for this algorithm. */
export function isKeyFor(algorithm: PublicKeyAlgorithm, { asymmetricKeyType, asymmetricKeyDetails }: KeyObject) {
  if (algorithm === "ed25519") return asymmetricKeyType === "ed25519";
  if (isOfCurve(algorithm)) return asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1";
  return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= minRsaBits;
}

/** Lengths of raw keys: Ed25519 (RFC 8032), and an uncompressed point of P-256 (SEC 1). */
const ed25519Bytes = 32;
const pointBytes = 65;

/**
 * Reads a public key: PEM with or without its first and last line and its line ends, or bytes in this encoding, in the
 * raw or the SPKI form. Undefined if the text is no public key for the algorithm, or, if that is undefined, for any. A
 * private key is refused, not converted.
 */
export function readPublicKey(
  algorithm: PublicKeyAlgorithm | undefined,
  text: string,
  encoding = "",
): KeyObject | undefined {
  try {
    const key = keyIn(algorithm, text.trim(), encoding);
    const isOne =
      algorithm === undefined ? publicKeyAlgorithms.some((one) => isKeyFor(one, key)) : isKeyFor(algorithm, key);
    return isOne ? key : undefined;
  } catch {
    // The text is not a key.
    return undefined;
  }
}

const armor = /^-----BEGIN (RSA )?PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END (?:RSA )?PUBLIC KEY-----$/;

function keyIn(algorithm: PublicKeyAlgorithm | undefined, text: string, encoding: string): KeyObject {
  const [pem, pkcs1, inner = ""] = armor.exec(text) ?? [];
  const isHex = encoding === "hex" && pem === undefined;
  const bytes = isHex ? bytesOfHex(text) : bytesOfBase64((pem === undefined ? text : inner).replace(/\s/g, ""));
  if (bytes === undefined) throw new Error("not in its encoding");
  if (pkcs1 !== undefined) return createPublicKey({ key: bytes, format: "der", type: "pkcs1" });
  if (algorithm === "ed25519" && bytes.length === ed25519Bytes) {
    return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") }, format: "jwk" });
  }
  if (isOfCurve(algorithm) && bytes.length === pointBytes && bytes[0] === 4) {
    const [x = "", y = ""] = [bytes.subarray(1, 33), bytes.subarray(33)].map((half) => half.toString("base64url"));
    return createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
  }
  return createPublicKey({ key: bytes, format: "der", type: "spki" });
}

const bytesOfHex = (text: string): Buffer | undefined =>
  /^(?:[0-9a-f]{2})+$/i.test(text) ? Buffer.from(text, "hex") : undefined;

/** Decodes base64 of either alphabet, with or without its padding. */
function bytesOfBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  const bare = (one: string) => one.replace(/=+$/, "").replaceAll("-", "+").replaceAll("_", "/");
  return bytes.length > 0 && bare(bytes.toString("base64")) === bare(text) ? bytes : undefined;
}

/** Decodes a signature; undefined if the text is not the one that encodes these bytes. */
export function signatureBytes(text: string, encoding: string): Buffer | undefined {
  if (encoding === "hex") return bytesOfHex(text);
  const bytes = Buffer.from(text, "base64");
  return bytes.length > 0 && bytes.toString("base64") === text ? bytes : undefined;
}
