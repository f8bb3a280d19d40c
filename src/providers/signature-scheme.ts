import type { SignatureRules } from "../gen/latchkey/v1/provider_pb.ts";

/** Ways in which providers prove their webhooks. */
export const signatureSchemes = ["hmac", "standard_webhooks", "shared_token", "channel_token", "jwt"] as const;
export type SignatureScheme = (typeof signatureSchemes)[number];

interface SchemeFacts {
  /** The header holds a secret itself, not a signature made with one. */
  readonly sendsSecret: boolean;
  /** Reports whether nothing can be proven before the integration has a webhook secret. */
  readonly needsSecret: (rules: SignatureRules) => boolean;
  /** Returns the header with a message ID that the scheme signs; undefined if there is none. */
  readonly signedIdHeader: (rules: SignatureRules) => string | undefined;
}

const always = () => true;
const none = () => undefined;

export const schemeFacts: Readonly<Record<SignatureScheme, SchemeFacts>> = {
  hmac: { sendsSecret: false, needsSecret: always, signedIdHeader: none },
  standard_webhooks: {
    sendsSecret: false,
    needsSecret: always,
    signedIdHeader: ({ idHeader }) => idHeader || "webhook-id",
  },
  shared_token: { sendsSecret: true, needsSecret: always, signedIdHeader: none },
  // Each channel has its own token, which Latchkey generates.
  channel_token: { sendsSecret: true, needsSecret: () => false, signedIdHeader: none },
  jwt: { sendsSecret: false, needsSecret: ({ identityClaim }) => identityClaim !== "", signedIdHeader: none },
};

/**
 * Returns the scheme of a provider's rules; `none` if it has no scheme; undefined for a name that this version does not
 * know.
 */
export function schemeOf(rules: SignatureRules | undefined): SignatureScheme | "none" | undefined {
  const { scheme = "" } = rules ?? {};
  return scheme === "" ? "none" : signatureSchemes.find((known) => known === scheme);
}
