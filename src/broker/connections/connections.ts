import { fromBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { neededChoices } from "../../core/needed-choices.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type ConnectionCollections, connectionTouchKey, credentialsKey } from "./connection-collections.ts";
import { createConnectionRemoval, type RemoveConnection } from "./connection-removal.ts";
import { type ConnectionUpdates, createConnectionUpdates } from "./connection-updates.ts";
import type { PlanRevocation } from "./grant-removal.ts";
import type { ConnectionHealth } from "./health/health.ts";
import { unknownConnection } from "./unknown-connection.ts";

export interface Connections extends ConnectionUpdates {
  get(ref: ConnectionRef): Promise<StoredRecordOf<Connection>>;
  /** Returns the connections found for these refs, in the same order. */
  getMany(refs: readonly ConnectionRef[]): Promise<readonly (Connection | undefined)[]>;
  credentialsOf(ref: ConnectionRef): Promise<Credentials | undefined>;
  readonly delete: RemoveConnection;
  /** Adds the last-used times, which are stored separately, and the choices that are still to be made. */
  withLastUse(connections: readonly Connection[]): Promise<readonly Connection[]>;
}

interface ConnectionsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly lastUsed: LastUsedTimes;
  readonly health: ConnectionHealth;
  readonly events: Events;
  /** Changes that remove the connection's data of the customer's scripts. */
  readonly scriptedRemoval: (ref: ConnectionRef) => Promise<readonly Change[]>;
  readonly planRevocation: PlanRevocation;
  readonly audit: Audit;
  readonly world: World;
}

export function createConnections(options: ConnectionsOptions): Connections {
  const { store, collections, integrations, providers, lastUsed, audit, world } = options;
  const { connections } = collections;

  async function get(ref: ConnectionRef): Promise<StoredRecordOf<Connection>> {
    const parts = [ref.environment, ref.integration, ref.id];
    const found = namesNothing(...parts) ? undefined : await connections.get(...parts);
    if (found !== undefined) return found;
    await integrations.get({ environment: ref.environment, key: ref.integration });
    throw unknownConnection(ref);
  }

  return {
    ...createConnectionUpdates({ get, store, connections, providers, audit, world }),
    get,
    async getMany(refs) {
      const found = await connections.getMany(refs.map((ref) => [ref.environment, ref.integration, ref.id]));
      return found.map((stored) => stored?.value);
    },
    async credentialsOf({ environment, integration, id }) {
      const key = credentialsKey(environment, integration, id);
      const entry = await store.get(key);
      return entry === undefined ? undefined : fromBinary(CredentialsSchema, entry.value);
    },
    delete: createConnectionRemoval({ ...options, get }),
    async withLastUse(all) {
      const keys = all.map(({ ref }) =>
        connectionTouchKey(ref?.environment ?? "", ref?.integration ?? "", ref?.id ?? ""),
      );
      const used = await lastUsed.lastOf(keys);
      return all.map((connection, i) => {
        const created = connection.createdAt === undefined ? 0 : timestampMs(connection.createdAt);
        return {
          ...connection,
          lastFetchedAt: timestampFromMs(Math.max(used[i] ?? 0, created)),
          choicesNeeded: neededChoices(providers.lookUp(connection.provider), connection.connectionConfig),
        };
      });
    },
  };
}
