import type { ChannelRoom } from "../channels/open.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { ConnectionHealth } from "../connections/health/health.ts";
import { createNumbers } from "../connections/numbers.ts";
import type { CredentialsRoom } from "../credentials/open.ts";
import type { SharedServices } from "../deliveries/open.ts";
import { type Origins, openOrigins } from "../setup/origins.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { openSharedCallbacks, type SharedCallbacks } from "../setup/shared-callbacks.ts";
import type { ScriptHooks } from "../syncs/script-hooks.ts";
import type { Syncs } from "../syncs/syncs.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";
import { type Authorizations, createAuthorizations } from "./authorizations.ts";
import { deletingInOrder } from "./connection-deletion.ts";
import { createConnectionDescriber } from "./describe/connection-describer.ts";
import { type DescriptionScheduler, openDescriptionScheduler } from "./describe/description-scheduler.ts";
import { createImports, type Imports } from "./import/imports.ts";
import { type Outcomes, openOutcomes } from "./outcomes.ts";
import { type ConnectSessions, createSessions } from "./sessions.ts";

/** Creates connections: by import, or by an end user's authorization in a session. */
export interface ConnectRoom {
  readonly imports: Imports;
  readonly sessions: ConnectSessions;
  readonly authorizations: Authorizations;
  readonly origins: Origins;
  readonly sharedCallbacks: SharedCallbacks;
  readonly outcomes: Outcomes;
  /** The connections, whose deletion ends their channels first. */
  readonly connections: Connections;
  /** Asks providers about imported connections. */
  readonly descriptions: DescriptionScheduler;
  close(): Promise<void>;
}

interface ConnectRoomOptions {
  readonly shared: SharedServices;
  readonly collections: SetupCollections & ConnectionCollections & AuthorizationCollections;
  readonly health: ConnectionHealth;
  readonly connections: Connections;
  readonly credentials: CredentialsRoom;
  readonly channels: ChannelRoom;
  readonly hooks: ScriptHooks;
  readonly syncs: Syncs;
  readonly publicUrl: () => string;
}

export async function openConnect(options: ConnectRoomOptions): Promise<ConnectRoom> {
  const { shared, collections, health, connections, credentials, hooks, syncs, publicUrl } = options;
  const { slots, channels } = options.channels;
  const { store, environments, integrations, providers, logs, events, audit, world } = shared;
  const { tokens, asks, grants, live } = credentials;
  const imports = createImports({
    store,
    collections,
    integrations,
    providers,
    slots,
    health,
    logs,
    events,
    audit,
    world,
    numbers: createNumbers(store),
    scripted: ({ ref, isNew, runHooks }) => {
      const hooked = runHooks ? hooks.created(ref) : [];
      if (!isNew || !syncs.startWith(ref.integration)) return hooked;
      return syncs.addedFor(ref, world.now()).then((added) => [...added, ...hooked]);
    },
  });
  const sessions = createSessions({
    store,
    collections,
    integrations,
    connections,
    providers,
    publicUrl,
    audit,
    world,
  });
  const origins = await openOrigins({ store, collections, world });
  const sharedCallbacks = await openSharedCallbacks({ store, collections, providerOf: providers.lookUp, world });
  const authorizations = createAuthorizations({
    sharedCallbacks,
    origins,
    store,
    collections,
    environments,
    integrations,
    providers,
    connections,
    sessions,
    imports,
    tokenEndpoint: tokens,
    asks,
    live,
    slots,
    grants,
    hooks,
    logs,
    publicUrl,
    audit,
    world,
  });
  const outcomes = await openOutcomes({ store, collections, world });
  const descriptions = await openDescriptionScheduler({
    store,
    partitions: shared.partitions,
    world,
    describer: createConnectionDescriber({ store, collections, live, asks, logs, audit, world }),
  });
  return {
    imports,
    sessions,
    authorizations,
    origins,
    outcomes,
    sharedCallbacks,
    descriptions,
    connections: deletingInOrder(connections, { channels, hooks }),
    async close() {
      sharedCallbacks.close();
      outcomes.close();
      origins.close();
      await authorizations.close();
    },
  };
}
