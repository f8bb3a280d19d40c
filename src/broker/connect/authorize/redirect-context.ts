import { createHmac } from "node:crypto";

/** The owner of a redirect URI. */
export interface RedirectOwner {
  /** 128 random bits, generated with the environment. */
  readonly environmentId: string;
  readonly integration: string;
  readonly provider: string;
}

/**
 * The last segment of an integration's own redirect URI. A response on another integration's URI is meant for that
 * integration, whatever its state (draft-ietf-oauth-security-topics-update, context binding). The URI is registered at
 * the provider, so it never changes.
 */
export const redirectContext = ({ environmentId, integration, provider }: RedirectOwner): string =>
  createHmac("sha256", environmentId).update(`${integration}\0${provider}`).digest("base64url").slice(0, 22);
