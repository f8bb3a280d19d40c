import type { AuthorizationCollections } from "../connect/authorization-collections.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { ListRevocations } from "../revocations/revocation-list.ts";
import { type DeletionLoop, openDeletionLoop } from "./deletion-loop.ts";
import { createDeletionRun } from "./deletion-run.ts";
import type { EndUserCollections } from "./end-user-collections.ts";
import { createEndUsers, type EndUsers } from "./end-users.ts";

export interface EndUserRoom {
  readonly endUsers: EndUsers;
  readonly loop: DeletionLoop;
}

interface EndUserRoomOptions {
  readonly shared: SharedServices;
  readonly collections: EndUserCollections & AuthorizationCollections & ConnectionCollections;
  readonly connections: Connections;
  readonly listRevocations: ListRevocations;
}

export async function openEndUsers({
  shared,
  collections,
  connections,
  listRevocations,
}: EndUserRoomOptions): Promise<EndUserRoom> {
  const { store, partitions, audit, world } = shared;
  const run = createDeletionRun({ store, collections, connections, audit, world });
  const loop = await openDeletionLoop({ store, partitions, run, world });
  return { loop, endUsers: createEndUsers({ store, collections, listRevocations, wake: loop.wake, audit, world }) };
}
