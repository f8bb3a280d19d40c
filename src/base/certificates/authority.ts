import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import {
  authorityConstraints,
  forServers,
  keyIdOf,
  nameOf,
  signCertificate,
  signsCertificates,
  subjectKeyId,
} from "./certificate.ts";

/** A certificate authority with its key. */
export interface SigningAuthority {
  /** Unique to the authority: part of its name. */
  readonly id: string;
  /** DER. */
  readonly certificate: Buffer;
  readonly key: KeyObject;
  /** Its name in DER, as its certificates repeat it. */
  readonly name: Buffer;
  readonly keyId: Buffer;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** The parts that are kept. */
export interface KeptAuthority {
  readonly id: string;
  readonly certificate: Uint8Array;
  /** PKCS#8 in DER. */
  readonly privateKey: Uint8Array;
  readonly fromMs: number;
  readonly untilMs: number;
}

const dayMs = 86_400_000;
/** Certificates begin this long before they are made: clocks of clients differ. */
export const backdatedMs = dayMs;
/** Long enough for rotations without a hurry, short enough that a forgotten authority ends. */
const lifeMs = 5 * 365 * dayMs;

const newKeys = promisify(generateKeyPair);

const authorityName = (id: string): Buffer =>
  nameOf({ organization: "Latchkey", common: `Latchkey forward proxy ${id}` });

/**
 * Makes an authority for servers' certificates: ECDSA with P-256, no authority below it, and no use but signing
 * certificates of servers.
 */
export async function makeAuthority(id: string, nowMs: number): Promise<SigningAuthority> {
  const { privateKey: key, publicKey } = await newKeys("ec", { namedCurve: "P-256" });
  const spki = publicKey.export({ type: "spki", format: "der" });
  const name = authorityName(id);
  // To the second, as certificates say it.
  const fromMs = Math.floor((nowMs - backdatedMs) / 1_000) * 1_000;
  const untilMs = fromMs + lifeMs;
  const keyId = keyIdOf(spki);
  const certificate = await signCertificate(
    {
      subject: name,
      issuer: name,
      fromMs,
      untilMs,
      publicKey: spki,
      extensions: [authorityConstraints, signsCertificates, forServers, subjectKeyId(keyId)],
    },
    key,
  );
  return { id, certificate, key, name, keyId, fromMs, untilMs };
}

export const keptAuthority = ({ id, certificate, key, fromMs, untilMs }: SigningAuthority): KeptAuthority => ({
  id,
  certificate,
  privateKey: key.export({ type: "pkcs8", format: "der" }),
  fromMs,
  untilMs,
});

export function signingAuthority({ id, certificate, privateKey, fromMs, untilMs }: KeptAuthority): SigningAuthority {
  const key = createPrivateKey({ key: Buffer.from(privateKey), type: "pkcs8", format: "der" });
  const spki = createPublicKey(key).export({ type: "spki", format: "der" });
  return {
    id,
    certificate: Buffer.from(certificate),
    key,
    name: authorityName(id),
    keyId: keyIdOf(spki),
    fromMs,
    untilMs,
  };
}
