import type { Message } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type ConnectOutcome,
  ConnectOutcomeSchema,
  type PendingAuthorization,
  PendingAuthorizationSchema,
} from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectSession, ConnectSessionSchema } from "../gen/latchkey/v1/connect_session_pb.ts";
import { type Connection, ConnectionSchema } from "../gen/latchkey/v1/connection_pb.ts";
import { type Environment, EnvironmentSchema, type Key, KeySchema } from "../gen/latchkey/v1/environment_pb.ts";
import { type Integration, IntegrationSchema } from "../gen/latchkey/v1/integration_pb.ts";
import { type AuditEvent, AuditEventSchema } from "../gen/latchkey/v1/log_pb.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../store/contract.ts";
import { keyOf } from "../store/keys.ts";
import { createRecords } from "../store/records.ts";

type Revised = Message & { revision: bigint };

/** The revision is the store's to know: it is filled in when a record is read, and not stored in it. */
const complete = (value: Revised, revision: number) => {
  value.revision = BigInt(revision);
};
const strip = <T extends Revised>(value: T): T => ({ ...value, revision: 0n });

/** Everything that is stored, and under which keys. */
export function createCollections(store: Store) {
  return {
    environments: createRecords({
      store,
      name: "environment",
      schema: EnvironmentSchema,
      key: ({ name }: Environment) => [name],
      complete,
      strip,
    }),
    keys: createRecords({ store, name: "key", schema: KeySchema, key: ({ id }: Key) => [id], complete, strip }),
    providers: createRecords({
      store,
      name: "provider",
      schema: ProviderSchema,
      key: ({ name }: Provider) => [name],
      complete,
      strip,
    }),
    integrations: createRecords({
      store,
      name: "integration",
      schema: IntegrationSchema,
      key: ({ environment, key }: Integration) => [environment, key],
      complete,
      strip,
      indexes: {
        provider: ({ provider }: Integration) => [[provider]],
        environment: ({ environment, provider }: Integration) => [[environment, provider]],
      },
    }),
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
          Object.entries(tags).map(([key, value]) => [ref?.environment ?? "", key, value]),
      },
    }),
    connectSessions: createRecords({
      store,
      name: "connect-session",
      schema: ConnectSessionSchema,
      key: ({ id }: ConnectSession) => [id],
      complete,
      strip,
      indexes: { age: ({ createdAt }: ConnectSession) => [[sortable(createdAt)]] },
    }),
    pendingAuthorizations: createRecords({
      store,
      name: "pending-authorization",
      schema: PendingAuthorizationSchema,
      secret: true,
      key: ({ stateHash }: PendingAuthorization) => [stateHash],
      indexes: {
        age: ({ createdAt }: PendingAuthorization) => [[sortable(createdAt)]],
        session: ({ sessionId }: PendingAuthorization) => [[sessionId]],
      },
    }),
    connectOutcomes: createRecords({
      store,
      name: "connect-outcome",
      schema: ConnectOutcomeSchema,
      key: ({ listenerHash }: ConnectOutcome) => [listenerHash],
      indexes: { age: ({ createdAt }: ConnectOutcome) => [[sortable(createdAt)]] },
    }),
    audit: createRecords({
      store,
      name: "audit",
      schema: AuditEventSchema,
      key: ({ id }: AuditEvent) => [id],
      indexes: { environment: ({ environment }: AuditEvent) => (environment === "" ? [] : [[environment]]) },
    }),
  } as const;
}

/** Milliseconds since 1970, in as many digits each. */
const sortable = (at: Timestamp | undefined): string =>
  String(at === undefined ? 0 : timestampMs(at)).padStart(15, "0");

export type Collections = ReturnType<typeof createCollections>;

// Kept beside the collections, under keys of their own.

/** Sealed. */
export const credentialsKey = (environment: string, integration: string, id: string) =>
  keyOf("credentials", environment, integration, id);
/** Sealed. */
export const integrationSecretsKey = (environment: string, key: string) =>
  keyOf("integration-secrets", environment, key);
export const keyDigestKey = (digest: string) => keyOf("key-digest", digest);
export const connectionTouchKey = (environment: string, integration: string, id: string) =>
  keyOf("touch", "connection", environment, integration, id);
export const keyTouchKey = (id: string) => keyOf("touch", "key", id);
export const connectionCounterKey = keyOf("counter", "connection");
