/** First segments of the data listener's own paths; routes of scripts must not begin with them. */
export const ownFirstSegments: ReadonlySet<string> = new Set([
  ...[
    "",
    "health",
    "docs",
    "openapi.json",
    "proxy",
    "mcp",
    ".well-known",
    "webhook",
    "oauth",
    "oauth2",
    "api-auth",
    "auth",
    "connect",
  ],
  ...["connection", "connections", "integrations", "providers", "environment-variables"],
  ...["sync", "action", "records", "scripts", "revocations", "end-users", "access-sessions"],
  ...["approvals", "approval-answers", "forward-proxy"],
]);

export const isOwnPath = ({ path }: { readonly path: string }): boolean =>
  ownFirstSegments.has(path.split("/")[1]?.split("?")[0] ?? "");
