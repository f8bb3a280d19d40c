import type { World } from "../../../base/world.ts";
import type { Authorities } from "../../authority/authorities.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { HostRoutes } from "../../connections/hosts/host-routes.ts";
import type { EdgeAudit } from "../edge-audit.ts";
import { createEdgeAuthorities } from "./edge-authorities.ts";
import { createEdgeCertificates } from "./edge-certificates.ts";
import { createEdgeRoutes } from "./edge-routes.ts";
import { createReadSubject } from "./read-routes.ts";

export interface ForwardPartsOptions {
  readonly hostRoutes: HostRoutes;
  readonly authorities: Authorities;
  readonly collections: Pick<ConnectionCollections, "connections">;
  readonly audit: Pick<EdgeAudit, "certified">;
  readonly onPush: (kind: "routes" | "authorities") => void;
  readonly world: World;
}

/** Creates what edges need of a broker for callers that name no connection, and for their forward proxies. */
export function createForwardParts(options: ForwardPartsOptions) {
  const { hostRoutes: routes, authorities, collections, audit, onPush, world } = options;
  return {
    routes: createEdgeRoutes({
      routes,
      read: createReadSubject({ routes, collections }),
      onPush: () => onPush("routes"),
      world,
    }),
    certify: createEdgeCertificates({ authorities, routes, audit, world }),
    authorities: createEdgeAuthorities({ authorities, onPush: () => onPush("authorities"), world }),
  } as const;
}
