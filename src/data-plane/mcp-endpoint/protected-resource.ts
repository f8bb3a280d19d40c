import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { FaultPage, Route } from "../server/routes.ts";
import { rpcFaultPage } from "./rpc-faults.ts";

type Identities = Pick<Broker["identities"], "userIssuers">;

const wellKnown = "/.well-known/oauth-protected-resource";

/** Returns where the metadata of a resource are (RFC 9728, section 3.1). */
function metadataUrlOf(resource: string): string {
  const { origin, pathname } = new URL(resource);
  return `${origin}${wellKnown}${pathname === "/" ? "" : pathname}`;
}

/** The metadata by which clients find the authorization servers of the endpoint (RFC 9728). */
export const resourceMetadataRoute = (identities: Identities): Route => ({
  method: "GET",
  path: `${wellKnown}/*`,
  scope: undefined,
  browser: "script",
  answer({ target, headers }) {
    const [path = ""] = target.split("?", 1);
    const fitting = identities
      .userIssuers()
      .filter(({ audience }) => new URL(metadataUrlOf(audience)).pathname === path);
    // One endpoint may have several addresses.
    const resource = (fitting.find(({ audience }) => isAt(audience, headers.host)) ?? fitting[0])?.audience;
    if (resource === undefined) throw new Fault("not_found", "no such route");
    const servers = fitting.filter(({ audience }) => audience === resource).map(({ issuer }) => issuer);
    const body: JsonObject = {
      resource,
      authorization_servers: [...new Set(servers)],
      bearer_methods_supported: ["header"],
      resource_name: "Latchkey",
    };
    return { status: 200, body };
  },
});

const isAt = (url: string, host: string | undefined): boolean => new URL(url).host === host?.toLowerCase();

/** Returns faults as MCP clients read them: one without a key says where tokens are from. */
export const endpointFaultPage =
  (identities: Identities): FaultPage =>
  (fault, request) => {
    const page = rpcFaultPage(fault, request);
    if (fault.status !== 401) return page;
    const issuers = identities.userIssuers();
    const resource = (issuers.find(({ audience }) => isAt(audience, request.headers.host)) ?? issuers[0])?.audience;
    if (resource === undefined) return page;
    const error = request.headers.authorization === undefined ? "" : ', error="invalid_token"';
    return {
      ...page,
      headers: { "www-authenticate": `Bearer resource_metadata="${metadataUrlOf(resource)}"${error}` },
    };
  };
