/** The parts of a URL that a script may set. The guest's `URL` declares them, the host applies them. */
export const settableUrlParts = [
  "href",
  "protocol",
  "username",
  "password",
  "host",
  "hostname",
  "port",
  "pathname",
  "search",
  "hash",
] as const;
