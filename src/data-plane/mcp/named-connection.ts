import { Fault } from "../../base/fault.ts";
import type { McpCalls } from "../../broker/mcp/open.ts";
import { type Caller, requireConnectionWithin } from "../../broker/setup/caller.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { requestedConnection, requireEnvironment } from "../proxy/forwarding/requested-connection.ts";
import type { CallContext } from "../proxy/provider-call.ts";
import { isUnderMcp, mcpIntegrationOf } from "./target.ts";

type McpCaller = Pick<Caller, "environment" | "limits" | "accessSession">;

/**
 * Returns the connection of a request: the one that it names, or on `/mcp` the only one. `mcp` is undefined where there
 * is no store, and clients name their connection.
 */
export function namedConnection(
  { request, alias }: CallContext,
  caller: McpCaller,
  mcp: Pick<McpCalls, "onlyConnection"> | undefined,
): ConnectionRef | Promise<ConnectionRef> {
  if (alias !== undefined || !isUnderMcp(request)) {
    return requestedConnection(request, { environment: caller.environment, alias });
  }
  const named = mcpConnection(request, caller);
  if (named.id !== "") return named;
  if (mcp === undefined) {
    throw new Fault("invalid_headers", "send the header Connection-Id with the id of a connection");
  }
  return mcp.onlyConnection({ environment: named.environment, key: named.integration });
}

/** Returns the connection that a request to `/mcp` names. The ID may be empty: the only connection. */
export function mcpConnection(request: FrontHead, caller: McpCaller): ConnectionRef {
  const environment = requireEnvironment(caller.environment);
  const integration = mcpIntegrationOf(request);
  const named = request.headers["connection-id"] ?? "";
  if (typeof named !== "string") throw new Fault("invalid_headers", "the header Connection-Id must be sent once");
  const id = named === "" ? limitedConnection(caller, integration) : named;
  return { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id };
}

const maxChoices = 5;

/** Returns the ID that the limits of a caller leave; empty: any. Throws if they leave none, or a choice. */
function limitedConnection(caller: McpCaller, integration: string): string {
  const { limits } = caller;
  if (limits?.integrations === undefined) return "";
  requireConnectionWithinIntegration(caller, integration);
  const ids = limits.given.connections.filter((one) => one.integration === integration).map(({ id }) => id);
  if (ids.includes("")) return "";
  const [first = "", ...others] = new Set(ids);
  if (others.length === 0) return first;
  const choices = [first, ...others].slice(0, maxChoices).join(", ");
  throw new Fault("invalid_headers", `send the header Connection-Id with one of the connections: ${choices}`);
}

function requireConnectionWithinIntegration(caller: McpCaller, integration: string): void {
  if (caller.limits?.integrations?.has(integration) !== true) requireConnectionWithin(caller, { integration, id: "" });
}
