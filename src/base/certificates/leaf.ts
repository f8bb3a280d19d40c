import { addressBytes } from "./address-bytes.ts";
import { backdatedMs, type SigningAuthority } from "./authority.ts";
import {
  alternativeName,
  authorityKeyId,
  forServers,
  keyIdOf,
  nameOf,
  noAuthority,
  signCertificate,
  signsHandshakes,
  subjectKeyId,
} from "./certificate.ts";

interface LeafRequest {
  /** A name in lower case, or an address without brackets. */
  readonly host: string;
  /** SubjectPublicKeyInfo in DER. */
  readonly publicKey: Buffer;
  readonly authority: SigningAuthority;
  readonly nowMs: number;
  readonly lifeMs: number;
}

/** Returns a server certificate for one host, in DER. */
export function makeLeaf({ host, publicKey, authority, nowMs, lifeMs }: LeafRequest): Promise<Buffer> {
  // A host may be longer than a common name: then the alternative name alone names it.
  const isShort = host.length <= 64;
  return signCertificate(
    {
      subject: nameOf(isShort ? { common: host } : {}),
      issuer: authority.name,
      fromMs: Math.max(nowMs - backdatedMs, authority.fromMs),
      untilMs: Math.min(nowMs + lifeMs, authority.untilMs),
      publicKey,
      extensions: [
        noAuthority,
        signsHandshakes,
        forServers,
        alternativeName(addressBytes(host) ?? host, !isShort),
        subjectKeyId(keyIdOf(publicKey)),
        authorityKeyId(authority.keyId),
      ],
    },
    authority.key,
  );
}
