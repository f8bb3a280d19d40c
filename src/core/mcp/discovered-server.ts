import type { McpRules, Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** Returns the rules of an MCP server that Latchkey discovered; undefined for a described one, and for no MCP server. */
export const discoveredServer = (provider: Pick<Provider, "mcp"> | undefined): McpRules | undefined =>
  provider?.mcp === undefined || provider.mcp.integration === "" ? undefined : provider.mcp;
