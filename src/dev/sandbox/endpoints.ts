/** The endpoints, each with its own counters and behavior. */
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
  "renew",
  "list",
] as const;

export type KnownEndpoint = (typeof endpoints)[number];

/** `sandbox`: its own pages, which never misbehave. `unknown`: paths without a route. */
export type SandboxEndpoint = KnownEndpoint | "sandbox" | "unknown";

export const isKnown = (endpoint: SandboxEndpoint): endpoint is KnownEndpoint =>
  endpoint !== "sandbox" && endpoint !== "unknown";

/** Whether errors have the form of RFC 6749. */
export const speaksOAuth = (endpoint: SandboxEndpoint): boolean =>
  endpoint === "token" || endpoint === "device" || endpoint === "revocation";
