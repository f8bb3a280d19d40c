import { fromBinary } from "@bufbuild/protobuf";
import type { Connection, ConnectionRef, Revocation } from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { requireRevision } from "../stored/conflict.ts";
import {
  type ConnectionCollections,
  connectionTouchKey,
  credentialsKey,
  droppedConnectionKey,
  targetOf,
} from "./connection-collections.ts";
import type { PlanRevocation } from "./grant-removal.ts";
import type { ConnectionHealth } from "./health/health.ts";

export interface ConnectionToRemove {
  readonly ref: ConnectionRef;
  readonly expectedRevision: bigint;
  /** True leaves the grant at the provider; undefined: the integration decides. */
  readonly keepGrant?: boolean | undefined;
  /** Further changes for the commit of the deletion. */
  readonly alongside?: ((revocation: Revocation | undefined) => Promise<readonly Change[]>) | undefined;
}

interface ConnectionRemovalOptions {
  readonly get: (ref: ConnectionRef) => Promise<StoredRecordOf<Connection>>;
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly health: ConnectionHealth;
  readonly events: Events;
  /** Changes that remove the connection's data of the customer's scripts. */
  readonly scriptedRemoval: (ref: ConnectionRef) => Promise<readonly Change[]>;
  readonly planRevocation: PlanRevocation;
  readonly audit: Audit;
}

/** Returns the revocation of the connection's grant; undefined if its credentials are no grant. */
export type RemoveConnection = (connection: ConnectionToRemove, actor: string) => Promise<Revocation | undefined>;

/** Removes a connection with everything stored for it, and stores the revocation of its grant, in one commit. */
export function createConnectionRemoval(options: ConnectionRemovalOptions): RemoveConnection {
  const { get, store, collections, integrations, providers, health, events, scriptedRemoval, planRevocation, audit } =
    options;
  const { connections } = collections;
  return async ({ ref, expectedRevision, keepGrant, alongside }, actor) => {
    const { environment, integration, id } = ref;
    const { result } = await transact(store, async () => {
      const before = await get(ref);
      requireRevision(before, expectedRevision);
      const remembered = await health.noteDeletion(ref);
      const description = await collections.descriptions.get(environment, integration, id);
      const sealedKey = credentialsKey(environment, integration, id);
      const sealed = await store.get(sealedKey);
      const planned = planRevocation({
        ...(await integrations.inUse({ environment, key: integration })),
        connection: before.value,
        credentials: sealed === undefined ? undefined : fromBinary(CredentialsSchema, sealed.value),
        keepGrant,
        actor,
      });
      const { revocation } = planned;
      return {
        changes: [
          ...connections.change({ before, after: undefined }),
          // Credentials that a refresh stores in between must not escape the revocation.
          { key: sealedKey, value: undefined, expect: sealed?.revision ?? 0 },
          { key: connectionTouchKey(environment, integration, id), value: undefined },
          ...planned.changes,
          // The connection's records may number a million, so they are removed later.
          { key: droppedConnectionKey(before.value.number), value: new Uint8Array() },
          ...remembered.changes,
          ...collections.descriptions.change({ before: description, after: undefined }),
          ...(await scriptedRemoval(ref)),
          ...events.auth({
            operation: "deletion",
            connection: before.value,
            provider: await providers.findNow(before.value.provider),
            revocation,
          }),
          ...audit.changes({ actor, action: "connection.delete", environment, targets: [targetOf(ref)] }),
          ...((await alongside?.(revocation)) ?? []),
        ],
        conditions: remembered.conditions,
        result: revocation,
      };
    });
    return result;
  };
}
