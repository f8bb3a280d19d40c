import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import type { Providers } from "../setup/providers.ts";
import { requireRevision } from "../stored/conflict.ts";
import {
  type ConnectionCollections,
  connectionTouchKey,
  credentialsKey,
  droppedConnectionKey,
  targetOf,
} from "./connection-collections.ts";
import type { ConnectionHealth } from "./health/health.ts";

export interface ConnectionToRemove {
  readonly ref: ConnectionRef;
  readonly expectedRevision: bigint;
}

interface ConnectionRemovalOptions {
  readonly get: (ref: ConnectionRef) => Promise<StoredRecordOf<Connection>>;
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly providers: Providers;
  readonly health: ConnectionHealth;
  readonly events: Events;
  /** Changes that remove the connection's data of the customer's scripts. */
  readonly scriptedRemoval: (ref: ConnectionRef) => Promise<readonly Change[]>;
  readonly audit: Audit;
}

export type RemoveConnection = (connection: ConnectionToRemove, actor: string) => Promise<void>;

/** Removes a connection with everything stored for it, in one commit. */
export function createConnectionRemoval(options: ConnectionRemovalOptions): RemoveConnection {
  const { get, store, collections, providers, health, events, scriptedRemoval, audit } = options;
  const { connections } = collections;
  return async ({ ref, expectedRevision }, actor) => {
    const { environment, integration, id } = ref;
    await transact(store, async () => {
      const before = await get(ref);
      requireRevision(before, expectedRevision);
      const remembered = await health.noteDeletion(ref);
      const description = await collections.descriptions.get(environment, integration, id);
      const gone = [credentialsKey(environment, integration, id), connectionTouchKey(environment, integration, id)];
      return {
        changes: [
          ...connections.change({ before, after: undefined }),
          ...gone.map((key) => ({ key, value: undefined })),
          // The connection's records may number a million, so they are removed later.
          { key: droppedConnectionKey(before.value.number), value: new Uint8Array() },
          ...remembered.changes,
          ...collections.descriptions.change({ before: description, after: undefined }),
          ...(await scriptedRemoval(ref)),
          ...events.auth({
            operation: "deletion",
            connection: before.value,
            provider: await providers.findNow(before.value.provider),
          }),
          ...audit.changes({ actor, action: "connection.delete", environment, targets: [targetOf(ref)] }),
        ],
        conditions: remembered.conditions,
        result: undefined,
      };
    });
  };
}
