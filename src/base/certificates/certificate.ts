import { createHash, type KeyObject, randomBytes, sign } from "node:crypto";
import { promisify } from "node:util";
import { bits, isTrue, octets, oid, positive, sequence, setOf, tagged, time, utf8 } from "./der.ts";

/** What a certificate says. */
export interface CertificateContent {
  /** The names, in DER. */
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly fromMs: number;
  readonly untilMs: number;
  /** SubjectPublicKeyInfo, in DER. */
  readonly publicKey: Buffer;
  readonly extensions: readonly Buffer[];
}

const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"));
/** X.509 version 3. */
const version3 = tagged(0xa0, positive(Buffer.from([2])));
/** Longer names are refused by OpenSSL (RFC 5280, upper bound of a common name). */
const maxNameLength = 64;

const signInPool = promisify(sign);

/** Returns a certificate in DER, signed with ECDSA and SHA-256 by a thread of the pool. */
export async function signCertificate(content: CertificateContent, key: KeyObject): Promise<Buffer> {
  const { subject, issuer, fromMs, untilMs, publicKey, extensions } = content;
  const said = sequence(
    version3,
    positive(serialNumber()),
    ecdsaWithSha256,
    issuer,
    sequence(time(fromMs), time(untilMs)),
    subject,
    publicKey,
    tagged(0xa3, sequence(...extensions)),
  );
  return sequence(said, ecdsaWithSha256, bits(await signInPool("sha256", said, key)));
}

/** 127 random bits: positive, and never 0. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes;
}

/** A name with these attributes; the common name is cut off if it is too long. */
export function nameOf({ organization, common }: { readonly organization?: string; readonly common?: string }): Buffer {
  const attribute = (type: string, text: string) => setOf(sequence(oid(type), utf8(text.slice(0, maxNameLength))));
  return sequence(
    ...(organization === undefined ? [] : [attribute("2.5.4.10", organization)]),
    ...(common === undefined ? [] : [attribute("2.5.4.3", common)]),
  );
}

interface Extension {
  readonly type: string;
  readonly isCritical?: boolean;
  readonly value: Buffer;
}

const extension = ({ type, isCritical = false, value }: Extension): Buffer =>
  sequence(oid(type), ...(isCritical ? [isTrue] : []), octets(value));

/** RFC 5280, 4.2.1.2, method 1. */
export const keyIdOf = (publicKey: Buffer): Buffer => createHash("sha1").update(publicKey).digest();

export const subjectKeyId = (id: Buffer): Buffer => extension({ type: "2.5.29.14", value: octets(id) });
export const authorityKeyId = (id: Buffer): Buffer =>
  extension({ type: "2.5.29.35", value: sequence(tagged(0x80, id)) });

/** For an authority: no certificate between it and those of hosts. */
export const authorityConstraints = extension({
  type: "2.5.29.19",
  isCritical: true,
  value: sequence(isTrue, positive(Buffer.from([0]))),
});
export const noAuthority = extension({ type: "2.5.29.19", isCritical: true, value: sequence() });

/** `keyCertSign` alone, or `digitalSignature` alone. */
export const signsCertificates = extension({
  type: "2.5.29.15",
  isCritical: true,
  value: bits(Buffer.from([0x04]), 2),
});
export const signsHandshakes = extension({ type: "2.5.29.15", isCritical: true, value: bits(Buffer.from([0x80]), 7) });

/** Only for servers: no mail, no code, no clients. */
export const forServers = extension({ type: "2.5.29.37", value: sequence(oid("1.3.6.1.5.5.7.3.1")) });

/** RFC 5280, 4.2.1.6: a name, or the bytes of an address. Critical if the subject is empty. */
export const alternativeName = (host: string | Uint8Array, isCritical: boolean): Buffer =>
  extension({
    type: "2.5.29.17",
    isCritical,
    value: sequence(typeof host === "string" ? tagged(0x82, Buffer.from(host, "latin1")) : tagged(0x87, host)),
  });
