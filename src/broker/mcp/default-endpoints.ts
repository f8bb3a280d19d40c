import type { DiscoveredAuthorization, KnownIssuer } from "./discovery.ts";

/**
 * Endpoints of a server that publishes no metadata at all (MCP 2025-03-26, "Fallbacks for Servers without Metadata
 * Discovery"): it is its own authorization server, below its own origin. Such a server cannot say that it supports PKCE,
 * which this version requires of servers; it is used in any case, and a code or a token reaches no other origin.
 */
export const defaultAuthorization = (origin: string, scopes: readonly string[]): DiscoveredAuthorization => ({
  issuer: origin,
  authorizationUrl: `${origin}/authorize`,
  tokenUrl: `${origin}/token`,
  revocationUrl: "",
  pushedUrl: "",
  registrationUrl: `${origin}/register`,
  acceptsDocuments: false,
  authMethods: [],
  scopes,
  namesIssuer: false,
  isDefault: true,
});

/** A server whose metadata were read once, and are missing now, is in trouble: its endpoints stay as they were. */
export const mayHaveDefaults = ({ issuer, hasDefaults }: KnownIssuer): boolean => issuer === "" || hasDefaults;
