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

export type Known = (typeof endpoints)[number];

/** `sandbox` are its own pages, which always behave; `unknown` is whatever is not there. */
export type Endpoint = Known | "sandbox" | "unknown";

export const isKnown = (endpoint: Endpoint): endpoint is Known => endpoint !== "sandbox" && endpoint !== "unknown";

/** Those that refuse as RFC 6749 has it. */
export const speaksOAuth = (endpoint: Endpoint): boolean =>
  endpoint === "token" || endpoint === "device" || endpoint === "revocation";
