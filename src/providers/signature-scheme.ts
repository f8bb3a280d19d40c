import type { SignatureRules } from "../gen/latchkey/v1/provider_pb.ts";

/** Ways in which providers prove their webhooks. */
export const signatureSchemes = [
  "hmac",
  "standard_webhooks",
  "shared_token",
  "channel_token",
  "jwt",
  "jwt_secret",
  "public_key",
  "basic",
] as const;
export type SignatureScheme = (typeof signatureSchemes)[number];

/**
 * Returns the scheme of a provider's rules; `none` if it has no scheme; undefined for a name that this version does not
 * know.
 */
export function schemeOf(rules: SignatureRules | undefined): SignatureScheme | "none" | undefined {
  const { scheme = "" } = rules ?? {};
  return scheme === "" ? "none" : signatureSchemes.find((known) => known === scheme);
}

/** Placeholders of signed content that take no name. */
export const plainPlaceholders = [
  "timestamp",
  "body",
  "body_crc32",
  "body_sha256",
  "method",
  "url",
  "plain_url",
  "form",
] as const;
export type PlainPlaceholder = (typeof plainPlaceholders)[number];
