import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { type ConnectionCensus, createConnectionCensus } from "./census/census.ts";
import type { ConnectionCollections } from "./connection-collections.ts";
import { type Connections, createConnections } from "./connections.ts";
import type { PlanRevocation } from "./grant-removal.ts";
import { type ConnectionHealth, createConnectionHealth } from "./health/health.ts";
import { openUnwellCount } from "./health/unwell-count.ts";
import { createHostRoutes, type HostRoutes } from "./hosts/host-routes.ts";
import type { LookupFields } from "./lookup/lookup-fields.ts";
import { openReindex, type Reindex } from "./lookup/reindex.ts";
import { type ConnectionListing, createConnectionListing } from "./search.ts";

/** Connections and their health, and the keys that notifications find them by. */
export interface ConnectionRoom {
  readonly health: ConnectionHealth;
  readonly connections: Connections;
  readonly listing: ConnectionListing;
  /** Finds the integrations and connections that a URL stands for. */
  readonly hostRoutes: HostRoutes;
  readonly census: ConnectionCensus;
  readonly reindex: Reindex;
  close(): void;
}

interface ConnectionRoomOptions {
  readonly shared: SharedServices;
  readonly collections: SetupCollections & ConnectionCollections;
  readonly lookupFields: LookupFields;
  /** Changes that remove the connection's data of the customer's scripts. */
  readonly scriptedRemoval: (ref: ConnectionRef) => Promise<readonly Change[]>;
  readonly planRevocation: PlanRevocation;
}

export async function openConnections(options: ConnectionRoomOptions): Promise<ConnectionRoom> {
  const { shared, collections, lookupFields, scriptedRemoval, planRevocation } = options;
  const { store, integrations, providers, lastUsed, logs, events, audit, world } = shared;
  const health = createConnectionHealth({ store, collections, logs, events, world });
  const connections = createConnections({
    store,
    collections,
    integrations,
    providers,
    lastUsed,
    health,
    events,
    audit,
    world,
    scriptedRemoval,
    planRevocation,
  });
  const unwell = await openUnwellCount({ store, world });
  const census = createConnectionCensus({ store, world });
  const reindex = await openReindex({ store, collections, fields: lookupFields, world });
  const listing = createConnectionListing(collections, census);
  return {
    health,
    connections,
    reindex,
    census,
    listing,
    hostRoutes: createHostRoutes({ integrations, providers, listing }),
    close() {
      census.close();
      unwell.close();
    },
  };
}
