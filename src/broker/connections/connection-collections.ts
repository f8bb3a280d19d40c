import { timestampMs } from "@bufbuild/protobuf/wkt";
import { accountOf } from "../../core/notifications/email-hash.ts";
import {
  type ConnectionDescription,
  ConnectionDescriptionSchema,
  type LookupFiling,
  LookupFilingSchema,
  type LookupRows,
  LookupRowsSchema,
  type RefreshRecord,
  RefreshRecordSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Connection,
  Connection_State,
  type ConnectionRef,
  ConnectionSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf, under } from "../../store/keys.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { keysUntil, sortable } from "../stored/sortable-time.ts";
import { connectionLookups } from "./lookup/connection-lookups.ts";
import { lookupRowKeys } from "./lookup/lookup-rows.ts";

export interface LookupFieldNames {
  /** The fields by which notifications find connections of this provider. */
  readonly fieldsOf: (provider: string) => readonly string[];
  /** The account whose grant a connection shares with others; undefined if it has its own, or the account is unknown. */
  readonly sharedAccountOf?: (connection: Connection) => string | undefined;
  /** Whether each value that notifications find connections by is stored under a key of its own. */
  readonly areRowsWritten?: () => boolean;
}

/** Collections of connections, of records about their refreshes, and of how they are found. */
export function createConnectionCollections(
  store: Store,
  { fieldsOf, sharedAccountOf, areRowsWritten }: LookupFieldNames,
) {
  return {
    connections: createRecords({
      store,
      name: "connection",
      schema: ConnectionSchema,
      key: ({ ref }: Connection) => {
        if (ref === undefined) throw new Error("a stored connection has a ref");
        return [ref.environment, ref.integration, ref.id];
      },
      complete,
      strip,
      indexes: {
        tag: ({ ref, tags }: Connection) =>
          Object.keys(tags).map((key) => [ref?.environment ?? "", key, tags[key] ?? ""]),
        // Only unhealthy connections: nearly all are healthy, and listed without this index.
        state: ({ ref, state }: Connection) => (isWell(state) ? [] : [[ref?.environment ?? "", String(state)]]),
        // The connections of one account at the provider. Connections stored before this index existed are not in it.
        account: ({ ref, connectionConfig }: Connection) => {
          const account = accountOf(connectionConfig);
          return ref === undefined || account === undefined ? [] : [[ref.environment, ref.integration, account]];
        },
        // Those that share one grant at the provider.
        grant: (connection: Connection) => {
          const { ref } = connection;
          const account = sharedAccountOf?.(connection);
          return ref === undefined || account === undefined ? [] : [[ref.environment, ref.integration, account]];
        },
      },
      facets: {
        lookups: (connection: Connection) => connectionLookups(connection, fieldsOf(connection.provider)),
        override: ({ webhookUrlOverride }: Connection) =>
          webhookUrlOverride === "" ? undefined : Buffer.from(webhookUrlOverride),
      },
      facetKeys: {
        lookups: (own, lookups) => (areRowsWritten?.() === true ? lookupRowKeys(own, lookups) : []),
      },
    }),
    lookupFilings: createRecords({
      store,
      name: "lookup-filing",
      schema: LookupFilingSchema,
      key: ({ provider }: LookupFiling) => [provider],
    }),
    lookupRows: createRecords({
      store,
      name: "lookup-rows",
      schema: LookupRowsSchema,
      key: (_: LookupRows) => ["all"],
    }),
    descriptions: createRecords({
      store,
      name: "description",
      schema: ConnectionDescriptionSchema,
      key: ({ environment, integration, connectionId }: ConnectionDescription) => [
        environment,
        integration,
        connectionId,
      ],
      indexes: {
        due: ({ provider, dueAt }: ConnectionDescription) =>
          dueAt === undefined ? [] : [[provider, sortable(timestampMs(dueAt))]],
      },
    }),
    refreshes: createRecords({
      store,
      name: "refresh",
      schema: RefreshRecordSchema,
      key: ({ environment, integration, connectionId }: RefreshRecord) => [environment, integration, connectionId],
      indexes: { look: ({ lookAt }: RefreshRecord) => (lookAt === undefined ? [] : [[sortable(timestampMs(lookAt))]]) },
    }),
  } as const;
}

export const isWell = (state: Connection_State): boolean =>
  state === Connection_State.ACTIVE || state === Connection_State.UNSPECIFIED;

export type ConnectionCollections = ReturnType<typeof createConnectionCollections>;

/** The stored value is encrypted. */
export const credentialsKey = (environment: string, integration: string, id: string) =>
  keyOf("credentials", environment, integration, id);

/** The key that `refreshes` uses, for commits on condition that no record is stored. */
export const refreshKey = (environment: string, integration: string, id: string) =>
  keyOf("refresh", environment, integration, id);

/** Range of the secondary index of connections to examine by then; each key ends in the connection's key. */
export const toBeLookedAt = (nowMs: number) => keysUntil("refresh.look", nowMs);

/** Space of the secondary index of unhealthy connections. Keys: environment, state, and the connection's key. */
export const unwellSpace = "connection.state";

/** Index of lookup digests by connection. Keys: environment, integration and ID. */
export const lookupSpace = "connection.lookups";

/** Connections with a URL of their own for deliveries. Keys: environment, integration and ID. */
export const overrideSpace = "connection.override";

export const connectionTouchKey = (environment: string, integration: string, id: string) =>
  keyOf("touch", "connection", environment, integration, id);

export const connectionCounterKey = keyOf("counter", "connection");

/** Identifies a connection in memory. */
export const connectionKey = ({ environment, integration, id }: Omit<ConnectionRef, "$typeName">): string =>
  `${environment}\0${integration}\0${id}`;

/** `integration/id`, the connection's name in the audit log. */
export const targetOf = ({ integration, id }: ConnectionRef): string => `${integration}/${id}`;

/** Name of the lease held while a connection's credentials are refreshed. */
export const refreshLease = ({ environment, integration, id }: ConnectionRef): string =>
  `refresh/${environment}/${integration}/${id}`;

/** Marks a deleted connection whose records are still to be removed. */
export const droppedConnectionKey = (connectionNumber: number) =>
  keyOf("record-dropped-connection", String(connectionNumber));
export const droppedConnections = under("record-dropped-connection");
