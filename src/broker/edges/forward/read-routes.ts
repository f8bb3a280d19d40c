import { create } from "@bufbuild/protobuf";
import { EdgeRouteSchema, EdgeRoutesSchema, type RouteSubject } from "../../../gen/latchkey/v1/edge_pb.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { HostRoutes } from "../../connections/hosts/host-routes.ts";
import { readRouteRows } from "../../connections/hosts/route-rows.ts";
import type { FollowedSubject, ReadRoutes } from "./route-subjects.ts";

/** Reads which connections an address has. Shared by all edges that follow it. */
export type ReadSubject = (place: Pick<FollowedSubject, "environment" | "subject">) => Promise<ReadRoutes>;

interface ReadSubjectOptions {
  readonly routes: Pick<HostRoutes, "routesOf" | "connectionsOf" | "hostsOf">;
  readonly collections: Pick<ConnectionCollections, "connections">;
}

/** Hosts that a refusal may name. */
const mostHosts = 100;
/** Connections that a message names; one more shows that there are others. */
const mostIds = 10;

export function createReadSubject({ routes, collections }: ReadSubjectOptions): ReadSubject {
  async function ofOrigin(environment: string, origin: string): Promise<ReadRoutes> {
    const rows = await readRouteRows(routes, environment, origin);
    const hosts = rows.length === 0 ? (await routes.hostsOf(environment)).slice(0, mostHosts) : [];
    return {
      message: create(EdgeRoutesSchema, {
        subject: { subject: { case: "origin", value: origin } },
        routes: rows.map(({ integration, basePath, ids, hasMore }) =>
          create(EdgeRouteSchema, { integration, basePath, ids: [...ids], hasMore }),
        ),
        hosts: [...hosts],
      }),
      fixed: new Set(rows.flatMap(({ integration, isForAll }) => (isForAll ? [integration] : []))),
    };
  }

  async function ofIntegration(environment: string, integration: string): Promise<ReadRoutes> {
    const page = await collections.connections.page({ under: [environment, integration], limit: mostIds + 1 });
    const ids = page.map(({ value }) => value.ref?.id ?? "");
    const route = create(EdgeRouteSchema, { integration, ids: ids.slice(0, mostIds), hasMore: ids.length > mostIds });
    return {
      message: create(EdgeRoutesSchema, {
        subject: { subject: { case: "integration", value: integration } },
        routes: [route],
      }),
      fixed: new Set([integration]),
    };
  }

  return ({ environment, subject: { subject } }) =>
    subject.case === "integration"
      ? ofIntegration(environment, subject.value)
      : ofOrigin(environment, subject.value ?? "");
}

/** Returns whether an address is well formed. */
export function isReadable({ subject }: RouteSubject): boolean {
  if (subject.case !== "origin") return subject.case === "integration";
  const { value } = subject;
  return /^https?:/.test(value) && URL.canParse(value) && new URL(value).origin === value;
}
