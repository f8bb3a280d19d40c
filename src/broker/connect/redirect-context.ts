import { createHmac } from "node:crypto";

/** Whose redirect URI it is. */
export interface RedirectOwner {
  /** 128 random bits, made with the environment. */
  readonly environmentId: string;
  readonly integration: string;
  readonly provider: string;
}

/**
 * The last segment of an integration's own redirect URI. An answer that comes back on another integration's is meant
 * for that one, whatever state it carries (draft-ietf-oauth-security-topics-update, context binding). It is registered
 * at the provider, and so the same for good.
 */
export const redirectContext = ({ environmentId, integration, provider }: RedirectOwner): string =>
  createHmac("sha256", environmentId).update(`${integration}\0${provider}`).digest("base64url").slice(0, 22);
