import { createPrivateKey, createPublicKey, generateKeyPairSync } from "node:crypto";
import type { CryptoKey } from "oauth4webapi";
import { unescapePem } from "../jwt/private-key.ts";
import { CannotAttach } from "../scheme.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256" } as const;

/** Creates a key for binding tokens (RFC 9449): PKCS #8, PEM. ES256, which every DPoP server accepts. */
export function newDpopKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: algorithm.namedCurve });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** Reports whether tokens can be bound to the key. */
export function isDpopKey(pem: string): boolean {
  try {
    readDpopKey(pem);
    return true;
  } catch (error) {
    if (error instanceof CannotAttach) return false;
    throw error;
  }
}

export function readDpopKey(pem: string): { readonly privateKey: CryptoKey; readonly publicKey: CryptoKey } {
  try {
    const key = createPrivateKey(unescapePem(pem));
    return {
      privateKey: key.toCryptoKey(algorithm, false, ["sign"]),
      // The public half is sent with each proof.
      publicKey: createPublicKey(key).toCryptoKey(algorithm, true, ["verify"]),
    };
  } catch {
    /* No cause either: OpenSSL's message may quote the input. */
    throw new CannotAttach("the key that the connection's tokens are bound to must be unencrypted PEM");
  }
}
