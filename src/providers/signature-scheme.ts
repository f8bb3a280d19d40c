import type { SignatureRules } from "../gen/latchkey/v1/provider_pb.ts";

/** The ways in which providers prove their webhooks. */
export const signatureSchemes = ["hmac", "standard_webhooks", "shared_token", "channel_token", "jwt"] as const;
export type SignatureScheme = (typeof signatureSchemes)[number];

interface SchemeFacts {
  /** The header holds a secret itself, and not what was made with one. */
  readonly sendsSecret: boolean;
  /** Nothing can be proven before the integration has a webhook secret. */
  readonly needsSecret: (rules: SignatureRules) => boolean;
  /** The header with an id of the message that the scheme signs; undefined: it has none. */
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
  // Each channel has a token of its own, which latchkey makes.
  channel_token: { sendsSecret: true, needsSecret: () => false, signedIdHeader: none },
  jwt: { sendsSecret: false, needsSecret: ({ identityClaim }) => identityClaim !== "", signedIdHeader: none },
};

/** The scheme of a provider's rules; `none`: it has no scheme; undefined: a name that this version does not know. */
export function schemeOf(rules: SignatureRules | undefined): SignatureScheme | "none" | undefined {
  const { scheme = "" } = rules ?? {};
  return scheme === "" ? "none" : signatureSchemes.find((known) => known === scheme);
}
