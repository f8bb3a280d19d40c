/** What is counted, and can be told how to behave, one by one. */
export const endpoints = [
  "authorization",
  "token",
  "device",
  "revocation",
  "metadata",
  "jwks",
  "userinfo",
  "oauth1",
  "api",
  "files",
  "upload",
  "stream",
  "mail",
  "sheets",
  "calendar",
  "watch",
  "stop",
] as const;

export type KnownEndpoint = (typeof endpoints)[number];

/** `sandbox` are its own pages, which always behave; `unknown` is whatever is not there. */
export type EndpointName = KnownEndpoint | "sandbox" | "unknown";

export const isKnown = (endpoint: EndpointName): endpoint is KnownEndpoint =>
  endpoint !== "sandbox" && endpoint !== "unknown";

/** Those that refuse as RFC 6749 has it. */
export const speaksOAuth = (endpoint: EndpointName): boolean =>
  endpoint === "token" || endpoint === "device" || endpoint === "revocation";
