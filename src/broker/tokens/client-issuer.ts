import type { McpRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { misconfigured } from "./token-failure.ts";

/**
 * Throws `TokenFailure` if the client of an MCP integration was registered at another authorization server than the
 * one that the MCP server names now: the client must not be sent there.
 */
export function requireOwnIssuer({ provider, integration, client }: TokenParties): void {
  const { auth, mcp } = provider;
  if (mcp === undefined || auth.case !== "oauth2" || client !== undefined) return;
  if (integration.oauth?.registration?.issuer === auth.value.issuer) return;
  throw misconfigured("issuer_changed", "the client is registered at another authorization server");
}

/** Client authentication at the authorization server of an MCP server: as agreed, else what its metadata support. */
export function mcpAuthMethod({ authMethods }: McpRules, { integration, secrets }: TokenParties): string {
  const agreed = integration.oauth?.registration?.authMethod ?? "";
  if (agreed !== "") return agreed;
  if ((secrets?.clientSecret ?? "") === "") return "none";
  return authMethods.length === 0 || authMethods.includes("client_secret_basic")
    ? "client_secret_basic"
    : "client_secret_post";
}
