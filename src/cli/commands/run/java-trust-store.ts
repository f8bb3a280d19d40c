import { createHash } from "node:crypto";

const magic = 0xfeedfeed;
const version = 2;
const trustedCertificate = 2;
/** What Java's own stores have: it guards against accidents, and is no secret. */
export const trustStorePassword = "changeit";
/** A word of Java's, part of the digest that the password protects. */
const salt = "Mighty Aphrodite";

/** Returns a trust store in Java's format JKS with these certificates (PEM), so that no `keytool` is needed. */
export function javaTrustStore(pem: string, nowMs: number): Buffer {
  const certificates = [...pem.matchAll(/-----BEGIN CERTIFICATE-----([\s\S]*?)-----END CERTIFICATE-----/g)].map(
    ([, base64 = ""]) => Buffer.from(base64, "base64"),
  );
  const entries = certificates.map((certificate, i) =>
    Buffer.concat([u32(trustedCertificate), text(`authority-${i}`), u64(nowMs), text("X.509"), sized(certificate)]),
  );
  const content = Buffer.concat([u32(magic), u32(version), u32(entries.length), ...entries]);
  const password = Buffer.from(trustStorePassword, "utf16le").swap16();
  return Buffer.concat([content, createHash("sha1").update(password).update(salt).update(content).digest()]);
}

function u32(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
}

function u64(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(number));
  return bytes;
}

/** ASCII, after its length in 16 bits. */
function text(ascii: string): Buffer {
  const bytes = Buffer.alloc(2 + ascii.length);
  bytes.writeUInt16BE(ascii.length);
  bytes.write(ascii, 2, "latin1");
  return bytes;
}

const sized = (bytes: Buffer): Buffer => Buffer.concat([u32(bytes.length), bytes]);
