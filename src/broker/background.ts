import type { World } from "../base/world.ts";
import type { Store } from "../store/contract.ts";
import type { AccessSessionRoom } from "./access-sessions/open.ts";
import type { AuditRoom } from "./audit/open.ts";
import type { ChannelRoom } from "./channels/open.ts";
import type { Collections } from "./collections.ts";
import type { ConnectRoom } from "./connect/open.ts";
import type { ConnectionRoom } from "./connections/open.ts";
import type { CredentialsRoom } from "./credentials/open.ts";
import type { DeliveryRoom } from "./deliveries/open.ts";
import type { EdgeRoom } from "./edges/open.ts";
import type { EmptyingRoom } from "./emptying/open.ts";
import type { EndUserRoom } from "./end-users/open.ts";
import { type RetentionPeriods, startHousekeeping } from "./housekeeping.ts";
import type { McpRoom } from "./mcp/open.ts";
import type { Partitions } from "./partitions/partitions.ts";
import type { RevocationRoom } from "./revocations/open.ts";
import type { SetupRoom } from "./setup/open.ts";
import type { SyncRoom } from "./syncs/open.ts";
import type { WebhookRoom } from "./webhooks/open.ts";

export type { RetentionPeriods };

/** The rooms whose background work is started and stopped. */
interface BackgroundRooms {
  readonly collections: Collections;
  readonly auditing: AuditRoom;
  readonly setup: SetupRoom;
  readonly outgoing: DeliveryRoom;
  readonly connectionRoom: ConnectionRoom;
  readonly credentials: CredentialsRoom;
  readonly scripted: SyncRoom;
  readonly channels: ChannelRoom;
  readonly connect: ConnectRoom;
  readonly webhooks: WebhookRoom;
  readonly revocations: RevocationRoom;
  readonly partitions: Partitions;
  readonly endUsers: EndUserRoom;
  readonly emptying: EmptyingRoom;
  readonly edges: EdgeRoom;
  readonly mcp: McpRoom;
  readonly accessRoom: AccessSessionRoom;
}

interface BackgroundOptions {
  readonly store: Store;
  readonly retention: RetentionPeriods;
  readonly world: World;
}

/** Starts the background work. Replicas share it through leases. */
export function startBackground(rooms: BackgroundRooms, { store, retention, world }: BackgroundOptions) {
  const { collections, setup, outgoing, connectionRoom, credentials, scripted, channels, connect, webhooks } = rooms;
  const { reindex, health } = connectionRoom;
  const { revocations, partitions } = rooms;
  const housekeeping = startHousekeeping({
    store,
    collections,
    integrations: setup.integrations,
    providers: setup.providers,
    health,
    destinations: outgoing.destinations,
    logs: rooms.auditing.logs,
    audit: rooms.auditing.audit,
    sessionCallers: rooms.accessRoom.sessionCallers,
    world,
    idleRefresh: credentials.idleRefresh,
    retention,
  });
  const all = [
    scripted.scheduler,
    channels.scheduler,
    webhooks.deliveries,
    connect.descriptions,
    revocations.scheduler,
    rooms.endUsers.loop,
    rooms.emptying.loop,
    rooms.mcp.rediscovery,
    housekeeping,
    reindex,
  ];
  let retired: Promise<unknown> | undefined;
  return {
    housekeeping,
    async start() {
      reindex.look();
      connect.authorizations.resume();
      await partitions.start();
      // Deliveries start only now: their destinations and signing secrets are known from here on.
      webhooks.deliveries.start();
      channels.scheduler.start();
      scripted.scheduler.start();
      connect.descriptions.start();
      revocations.scheduler.start();
      rooms.endUsers.loop.start();
      rooms.emptying.loop.start();
      rooms.mcp.rediscovery.start();
    },
    /** Runs work of this process's partitions, which it takes first. */
    own: (run: () => Promise<void>) => () => partitions.start().then(run),
    keepHouse: async () => {
      await housekeeping.run();
      await reindex.run();
      await channels.scheduler.run();
    },
    retire: async () => {
      // Each partition is given as soon as its own work has ended.
      retired ??= Promise.all([...all.map((one) => one.close()), partitions.retire(), rooms.edges.edges.leave()]);
      await retired;
    },
  };
}
