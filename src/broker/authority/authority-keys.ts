import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  keptAuthority,
  makeAuthority,
  type SigningAuthority,
  signingAuthority,
} from "../../base/certificates/authority.ts";
import { pemOf } from "../../base/certificates/pem.ts";
import { type StoredAuthorityKey, StoredAuthorityKeySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type AuthorityCertificate, AuthorityCertificateSchema } from "../../gen/latchkey/v1/authority_pb.ts";

/** Makes an authority with its key. */
export async function newAuthorityKey(id: string, nowMs: number): Promise<StoredAuthorityKey> {
  const { certificate, privateKey, fromMs, untilMs } = keptAuthority(await makeAuthority(id, nowMs));
  return create(StoredAuthorityKeySchema, {
    certificate: create(AuthorityCertificateSchema, {
      id,
      pem: pemOf("CERTIFICATE", certificate),
      sha256: createHash("sha256").update(certificate).digest("hex"),
      notBefore: timestampFromMs(fromMs),
      notAfter: timestampFromMs(untilMs),
    }),
    privateKey,
  });
}

/** Returns the authorities that have not ended, oldest first. */
export const authoritiesAt = (keys: readonly StoredAuthorityKey[], nowMs: number): readonly StoredAuthorityKey[] =>
  keys.filter(({ certificate }) => !hasEnded(certificate, nowMs));

function hasEnded(certificate: AuthorityCertificate | undefined, nowMs: number): boolean {
  const { signsUntil } = certificate ?? {};
  return signsUntil !== undefined && timestampMs(signsUntil) <= nowMs;
}

/** Ends each authority at this time, and lets the next one sign from then on. */
export function successionAt(
  keys: readonly StoredAuthorityKey[],
  next: StoredAuthorityKey,
  atMs: number,
): readonly StoredAuthorityKey[] {
  const at = timestampFromMs(atMs);
  const ended = keys.map((key) => withTimes(key, { signsUntil: at }));
  return [...ended, withTimes(next, { signsFrom: at })];
}

function withTimes(
  key: StoredAuthorityKey,
  times: Partial<Pick<AuthorityCertificate, "signsFrom" | "signsUntil">>,
): StoredAuthorityKey {
  const { certificate } = key;
  return certificate === undefined ? key : { ...key, certificate: { ...certificate, ...times } };
}

/** Reads a key for signing. Throws for a record without a certificate, which is never written. */
export function signerOf({ certificate, privateKey }: StoredAuthorityKey): SigningAuthority {
  if (certificate === undefined) throw new Error("a stored authority has no certificate");
  const { id, pem, notBefore, notAfter } = certificate;
  const base64 = pem.replaceAll(/-----[A-Z ]+-----|\s/g, "");
  return signingAuthority({
    id,
    certificate: Buffer.from(base64, "base64"),
    privateKey,
    fromMs: notBefore === undefined ? 0 : timestampMs(notBefore),
    untilMs: notAfter === undefined ? 0 : timestampMs(notAfter),
  });
}
