import { Fault } from "../../base/fault.ts";
import type { McpRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";

/** `/mcp/<integration>`: the MCP server of an integration. */
export const mcpPrefix = "/mcp";

const underMcp = `${mcpPrefix}/`;
export const isUnderMcp = ({ url = "" }: Pick<FrontHead, "url">): boolean => url.startsWith(underMcp);

/** Returns the key of the integration that the path names. Throws for any other path. */
export function mcpIntegrationOf({ url = "" }: FrontHead): string {
  const [path = "", query] = url.slice(underMcp.length).split("?");
  if (path === "" || path.includes("/") || query !== undefined) {
    throw new Fault("invalid_path", "the path must be /mcp/ and the key of an integration, without a query");
  }
  try {
    return decodeURIComponent(path);
  } catch {
    throw new Fault("invalid_path", "the path must be valid percent-encoding");
  }
}

/** Methods of the protocol, of both eras: messages, the event stream and the end of a session. */
const methods: ReadonlySet<string> = new Set(["POST", "GET", "DELETE", "OPTIONS", "HEAD"]);

interface McpAddress {
  readonly method: string | undefined;
  /** The request came to `/mcp`. */
  readonly isMcpRoute: boolean;
  /** Undefined if the provider is no MCP server. */
  readonly rules: McpRules | undefined;
  /** The path at the provider that any other request asks for. */
  readonly path: string;
  readonly basePath: string;
}

/** Returns the path of a request at the provider. The only path of an MCP server is its endpoint. */
export function mcpPath({ method = "GET", isMcpRoute, rules, path, basePath }: McpAddress): string {
  if (rules === undefined) {
    if (!isMcpRoute) return path;
    throw new Fault("invalid_path", "this integration is not of an MCP server: send the request to /proxy");
  }
  if (!methods.has(method)) {
    const allow = [...methods].join(", ");
    throw new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
  }
  const endpoint = endpointOf(rules);
  if (isMcpRoute) return endpoint;
  if (basePath + path === endpoint) return path;
  throw new Fault("invalid_path", `the only path of this MCP server is ${endpoint}`);
}

/** Path and query of each endpoint: a description is one object until it changes. */
const endpoints = new WeakMap<McpRules, string>();

function endpointOf(rules: McpRules): string {
  const known = endpoints.get(rules);
  if (known !== undefined) return known;
  const { pathname, search } = new URL(rules.url);
  endpoints.set(rules, pathname + search);
  return pathname + search;
}
