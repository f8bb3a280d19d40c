import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Route } from "../server/routes.ts";
import type { McpEndpoint } from "./endpoint.ts";
import type { EndpointServices } from "./methods.ts";
import { endpointFaultPage, resourceMetadataRoute } from "./protected-resource.ts";

/** The route of the MCP endpoint. What answers it is loaded with the first message: most processes get none. */
export function mcpRoutes(services: EndpointServices): Route[] {
  const { identities } = services.broker;
  let endpoint: Promise<McpEndpoint> | undefined;
  const load = async () => (await import("./endpoint.ts")).createMcpEndpoint(services);
  return [
    resourceMetadataRoute(identities),
    {
      method: "GET",
      path: "/mcp",
      scope: Scope.UNSPECIFIED,
      takesLimited: true,
      browser: "script",
      // HEAD would be a stream without an end.
      changesState: true,
      callerWith: identities.userWithToken,
      faultPage: endpointFaultPage(identities),
      async answer(request) {
        endpoint ??= load();
        return (await endpoint).open(request);
      },
    },
    {
      method: "POST",
      path: "/mcp",
      // Each tool requires its own scope.
      scope: Scope.UNSPECIFIED,
      takesBody: true,
      takesLimited: true,
      browser: "script",
      callerWith: identities.userWithToken,
      faultPage: endpointFaultPage(identities),
      async answer(request) {
        endpoint ??= load();
        return (await endpoint).answer(request);
      },
    },
  ];
}
