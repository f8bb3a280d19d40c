import type { McpVendor } from "./mcp-peer.ts";

/**
 * Shapes of what vendors publish: the fields that decide how a client connects. Recorded from public records of their
 * well-known documents (probes and bug reports on public repositories, July to October 2026) and from the documentation
 * of Keycloak and Auth0.
 */
const prm = "/.well-known/oauth-protected-resource";
const asm = "/.well-known/oauth-authorization-server";
const oidc = "/.well-known/openid-configuration";
const challenge = (host: string, path: string, more = "") =>
  `Bearer realm="OAuth", resource_metadata="https://${host}${prm}${path}"${more}`;
const three = ["client_secret_basic", "client_secret_post", "none"];

function server(issuer: string, more: object) {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    registration_endpoint: `${issuer}/register`,
    response_types_supported: ["code"],
    code_challenge_methods_supported: ["S256"],
    token_endpoint_auth_methods_supported: three,
    ...more,
  };
}

/** Resource without a path; documents as client IDs; PKCE with `plain` as well. */
export const notion: McpVendor = {
  url: "https://mcp.notion.com/mcp",
  challenge: challenge(
    "mcp.notion.com",
    "/mcp",
    ', error="invalid_token", error_description="Missing or invalid access token"',
  ),
  documents: {
    [`https://mcp.notion.com${prm}/mcp`]: {
      resource: "https://mcp.notion.com",
      authorization_servers: ["https://mcp.notion.com"],
      scopes_supported: ["default"],
      resource_name: "Notion MCP (Beta)",
    },
    [`https://mcp.notion.com${asm}`]: server("https://mcp.notion.com", {
      revocation_endpoint: "https://mcp.notion.com/token",
      code_challenge_methods_supported: ["plain", "S256"],
      client_id_metadata_document_supported: true,
    }),
  },
};

/** Resource with a path; `iss` in every answer; metadata of the authorization server with further members. */
const linear: McpVendor = {
  url: "https://mcp.linear.app/mcp",
  challenge: challenge("mcp.linear.app", "/mcp", ', error="invalid_token"'),
  documents: {
    [`https://mcp.linear.app${prm}/mcp`]: {
      resource: "https://mcp.linear.app/mcp",
      authorization_servers: ["https://mcp.linear.app"],
      scopes_supported: ["read", "write"],
    },
    [`https://mcp.linear.app${asm}`]: server("https://mcp.linear.app", {
      scopes_supported: ["read", "write", "openid", "email"],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
      resource: "https://mcp.linear.app/mcp",
    }),
  },
};

/** Metadata only below the path; endpoints below `/oauth`. */
const sentry: McpVendor = {
  url: "https://mcp.sentry.dev/mcp",
  challenge: challenge("mcp.sentry.dev", "/mcp"),
  documents: {
    [`https://mcp.sentry.dev${prm}/mcp`]: {
      resource: "https://mcp.sentry.dev/mcp",
      authorization_servers: ["https://mcp.sentry.dev"],
      scopes_supported: ["org:read", "project:write", "team:write", "event:write"],
    },
    [`https://mcp.sentry.dev${asm}`]: server("https://mcp.sentry.dev", {
      authorization_endpoint: "https://mcp.sentry.dev/oauth/authorize",
      token_endpoint: "https://mcp.sentry.dev/oauth/token",
      registration_endpoint: "https://mcp.sentry.dev/oauth/register",
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    }),
  },
};

/** No challenge parameters: metadata are looked for, and found at the root. */
const canva: McpVendor = {
  url: "https://mcp.canva.com/mcp",
  challenge: 'Bearer realm="OAuth"',
  documents: {
    [`https://mcp.canva.com${prm}`]: {
      resource: "https://mcp.canva.com",
      authorization_servers: ["https://mcp.canva.com"],
      scopes_supported: ["profile:read", "design:meta:read", "design:content:write"],
    },
    [`https://mcp.canva.com${asm}`]: server("https://mcp.canva.com", { client_id_metadata_document_supported: true }),
  },
};

/** Endpoint without a path; a challenge without quotes; an issuer with a path; public clients only. */
const stripe: McpVendor = {
  url: "https://mcp.stripe.com",
  challenge: `Bearer resource_metadata=https://mcp.stripe.com${prm}`,
  documents: {
    [`https://mcp.stripe.com${prm}`]: {
      resource: "https://mcp.stripe.com",
      authorization_servers: ["https://access.stripe.com/mcp"],
      scopes_supported: ["mcp"],
    },
    [`https://access.stripe.com${asm}/mcp`]: server("https://access.stripe.com/mcp", {
      authorization_endpoint: "https://access.stripe.com/mcp/oauth2/authorize",
      token_endpoint: "https://access.stripe.com/mcp/oauth2/token",
      registration_endpoint: "https://access.stripe.com/mcp/oauth2/register",
      token_endpoint_auth_methods_supported: ["none"],
      scopes_supported: ["mcp"],
    }),
  },
};

/** Three hosts; clients with a secret only. */
const figma: McpVendor = {
  url: "https://mcp.figma.com/mcp",
  challenge: challenge("mcp.figma.com", ""),
  documents: {
    [`https://mcp.figma.com${prm}`]: {
      resource: "https://mcp.figma.com/mcp",
      authorization_servers: ["https://api.figma.com"],
      scopes_supported: ["mcp:connect"],
    },
    [`https://api.figma.com${asm}`]: server("https://api.figma.com", {
      authorization_endpoint: "https://www.figma.com/oauth/mcp",
      token_endpoint: "https://api.figma.com/v1/oauth/token",
      registration_endpoint: "https://api.figma.com/v1/oauth/mcp/register",
      token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
    }),
  },
};

/** An identity provider of its own host, with OpenID Connect and `offline_access`. */
const vercel: McpVendor = {
  url: "https://mcp.vercel.com",
  challenge: `Bearer error="invalid_token", error_description="No authorization provided", resource_metadata="https://mcp.vercel.com${prm}"`,
  documents: {
    [`https://mcp.vercel.com${prm}`]: {
      resource: "https://mcp.vercel.com/",
      authorization_servers: ["https://vercel.com"],
      scopes_supported: ["openid"],
      resource_name: "Vercel MCP",
    },
    [`https://vercel.com${asm}`]: server("https://vercel.com", {
      authorization_endpoint: "https://vercel.com/oauth/authorize",
      token_endpoint: "https://api.vercel.com/login/oauth/token",
      registration_endpoint: "https://api.vercel.com/login/oauth/register",
      scopes_supported: ["openid", "email", "profile", "offline_access"],
      token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "private_key_jwt"],
    }),
  },
};

/** The resource as a list of one. */
const gitlab: McpVendor = {
  url: "https://gitlab.example.com/api/v4/mcp",
  challenge: challenge("gitlab.example.com", "/api/v4/mcp"),
  documents: {
    [`https://gitlab.example.com${prm}/api/v4/mcp`]: {
      resource: ["https://gitlab.example.com/api/v4/mcp"],
      authorization_servers: ["https://gitlab.example.com"],
    },
    [`https://gitlab.example.com${asm}`]: server("https://gitlab.example.com", {
      authorization_endpoint: "https://gitlab.example.com/oauth/authorize",
      token_endpoint: "https://gitlab.example.com/oauth/token",
      registration_endpoint: "https://gitlab.example.com/oauth/register",
      scopes_supported: ["api", "read_api", "mcp"],
    }),
  },
};

/** An issuer with a path whose metadata are appended to it, as OpenID Connect does. */
const keycloak: McpVendor = {
  url: "https://mcp.example.com/mcp",
  challenge: challenge("mcp.example.com", "/mcp", ', scope="mcp:tools"'),
  documents: {
    [`https://mcp.example.com${prm}/mcp`]: {
      resource: "https://mcp.example.com/mcp",
      authorization_servers: ["https://sso.example.com/realms/tools"],
      scopes_supported: ["mcp:tools", "mcp:admin"],
    },
    [`https://sso.example.com/realms/tools${oidc}`]: server("https://sso.example.com/realms/tools", {
      authorization_endpoint: "https://sso.example.com/realms/tools/protocol/openid-connect/auth",
      token_endpoint: "https://sso.example.com/realms/tools/protocol/openid-connect/token",
      registration_endpoint: "https://sso.example.com/realms/tools/clients-registrations/openid-connect",
      authorization_response_iss_parameter_supported: true,
      code_challenge_methods_supported: ["plain", "S256"],
    }),
  },
};

/** An issuer that ends with a slash, which the resource does not write. */
const auth0: McpVendor = {
  url: "https://tools.example.com/mcp",
  challenge: challenge("tools.example.com", "/mcp"),
  documents: {
    [`https://tools.example.com${prm}/mcp`]: {
      resource: "https://tools.example.com/mcp",
      authorization_servers: ["https://tenant.eu.auth0.com"],
    },
    [`https://tenant.eu.auth0.com${oidc}`]: server("https://tenant.eu.auth0.com", {
      issuer: "https://tenant.eu.auth0.com/",
      token_endpoint: "https://tenant.eu.auth0.com/oauth/token",
      registration_endpoint: "https://tenant.eu.auth0.com/oidc/register",
      authorization_response_iss_parameter_supported: true,
    }),
  },
};

/** Older than RFC 9728: the server is its own authorization server (MCP 2025-03-26). */
const older: McpVendor = {
  url: "https://mcp.older.example.com/v1/mcp",
  challenge: undefined,
  documents: { [`https://mcp.older.example.com${asm}`]: server("https://mcp.older.example.com", {}) },
};

/** All that connect without any setting. */
export const vendors = { notion, linear, sentry, canva, stripe, figma, vercel, gitlab, keycloak, auth0, older };

/** Registers no clients, and accepts no documents. */
export const github: McpVendor = {
  url: "https://api.githubcopilot.com/mcp",
  challenge: challenge("api.githubcopilot.com", "/mcp"),
  documents: {
    [`https://api.githubcopilot.com${prm}/mcp`]: {
      resource_name: "GitHub MCP Server",
      resource: "https://api.githubcopilot.com/mcp",
      authorization_servers: ["https://github.com/login/oauth"],
      scopes_supported: ["repo", "read:org"],
    },
    [`https://github.com${asm}/login/oauth`]: {
      issuer: "https://github.com/login/oauth",
      authorization_endpoint: "https://github.com/login/oauth/authorize",
      token_endpoint: "https://github.com/login/oauth/access_token",
      code_challenge_methods_supported: ["S256"],
    },
  },
};

/** Says nothing of PKCE, as Entra ID does. */
export const withoutPkce: McpVendor = {
  url: "https://tools.example.com/mcp",
  challenge: challenge("tools.example.com", ""),
  documents: {
    [`https://tools.example.com${prm}`]: {
      resource: "https://tools.example.com/mcp",
      authorization_servers: ["https://login.example.com/tenant/v2.0"],
    },
    [`https://login.example.com/tenant/v2.0${oidc}`]: {
      issuer: "https://login.example.com/tenant/v2.0",
      authorization_endpoint: "https://login.example.com/tenant/oauth2/v2.0/authorize",
      token_endpoint: "https://login.example.com/tenant/oauth2/v2.0/token",
    },
  },
};

/** Metadata that name another issuer than the one they were asked for. */
export const otherIssuer: McpVendor = {
  ...notion,
  documents: {
    ...notion.documents,
    [`https://mcp.notion.com${asm}`]: server("https://evil.example.com", {}),
  },
};

/** Moved to another authorization server. */
export const movedTo = (issuer: string): McpVendor => ({
  ...notion,
  documents: {
    [`https://mcp.notion.com${prm}/mcp`]: { resource: "https://mcp.notion.com", authorization_servers: [issuer] },
    [`${issuer}${asm}`]: server(issuer, {}),
  },
});
