import { X509Certificate } from "node:crypto";
import { readPrivateKey, unescapePem } from "./jwt/private-key.ts";
import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import { type AuthScheme, CannotAttach } from "./scheme.ts";

interface KeyPair {
  readonly certificate: string;
  readonly privateKey: string;
}

/**
 * Returns the pair for TLS after checking that the two belong together: otherwise the error would appear only during a
 * handshake.
 */
export function requireCertificate(pair: KeyPair): KeyPair {
  const [certificate, privateKey] = [unescapePem(pair.certificate), unescapePem(pair.privateKey)];
  const key = readPrivateKey(privateKey, "the private key of the client certificate");
  if (!readCertificate(certificate).checkPrivateKey(key)) {
    throw new CannotAttach("the private key does not match the client certificate");
  }
  return { certificate, privateKey };
}

function readCertificate(pem: string): X509Certificate {
  if (pem === "") throw new CannotAttach("the client certificate is missing");
  try {
    return new X509Certificate(pem);
  } catch {
    /* OpenSSL's error message would not help. */
    throw new CannotAttach("the client certificate must be PEM");
  }
}

/** A certificate that authenticates the TLS connection itself (RFC 8446, section 4.4.2). */
export const clientCertificate: AuthScheme<"clientCertificate"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  attach({ credentials: { certificate, privateKey } }) {
    const pair = requireCertificate({ certificate, privateKey });
    return { kind: "fixed", headers: [], query: [], clientCertificate: pair };
  },
  names: () => ({ headers: [], query: [] }),
};
