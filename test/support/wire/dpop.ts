import { createPublicKey, type JsonWebKey, verify } from "node:crypto";

export interface VerifiedProof {
  readonly header: Readonly<Record<string, unknown>> & { readonly jwk: JsonWebKey };
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Verifies a proof as a server does (RFC 9449, section 4.3), with the key that the proof itself contains. */
export function verifiedProof(proof: string): VerifiedProof {
  const [head = "", body = "", signature = "", ...more] = proof.split(".");
  const read = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  const header = read(head) as VerifiedProof["header"];
  const key = { key: createPublicKey({ key: header.jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" as const };
  const isSigned = verify("sha256", Buffer.from(`${head}.${body}`), key, Buffer.from(signature, "base64url"));
  if (!isSigned || more.length > 0) throw new Error("the proof is not signed by its key");
  return { header, claims: read(body) };
}
