import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";

/** Decodes a shared key; empty if it is not in the encoding of the rules. */
export function sharedKeyOf({ keyEncoding }: SignatureRules, secret: string): Uint8Array {
  if (keyEncoding === "base64") return Buffer.from(secret, "base64");
  if (keyEncoding === "hex") return /^(?:[0-9a-f]{2})+$/i.test(secret) ? Buffer.from(secret, "hex") : Buffer.alloc(0);
  return Buffer.from(secret);
}
