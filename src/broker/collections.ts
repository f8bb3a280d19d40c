import { hash } from "node:crypto";
import { create, type Message, toBinary } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { isWanted } from "../core/channel-life.ts";
import { connectionLookups } from "../core/connection-lookups.ts";
import { accountOf } from "../core/email-hash.ts";
import {
  type ConnectOutcome,
  ConnectOutcomeSchema,
  type LookupFiling,
  LookupFilingSchema,
  type PendingAuthorization,
  PendingAuthorizationSchema,
  type PendingDevice,
  PendingDeviceSchema,
  type RecordModel,
  RecordModelSchema,
  type RefreshRecord,
  RefreshRecordSchema,
  type SigningSecrets,
  SigningSecretsSchema,
  type StoredChannel,
  StoredChannelSchema,
  type StoredDestination,
  StoredDestinationSchema,
  type StoredForward,
  StoredForwardSchema,
  type StoredNotification,
  StoredNotificationSchema,
  type StoredRun,
  StoredRunSchema,
  type StoredSync,
  StoredSyncSchema,
  WaitingForwardSchema,
} from "../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type ConnectSession,
  ConnectSessionSchema,
  DeviceAuthorization_State,
} from "../gen/latchkey/v1/connect_session_pb.ts";
import {
  type Connection,
  Connection_State,
  type ConnectionRef,
  ConnectionSchema,
} from "../gen/latchkey/v1/connection_pb.ts";
import { type Environment, EnvironmentSchema, type Key, KeySchema } from "../gen/latchkey/v1/environment_pb.ts";
import { type Integration, IntegrationSchema } from "../gen/latchkey/v1/integration_pb.ts";
import { type AuditEvent, AuditEventSchema, type Log, LogSchema } from "../gen/latchkey/v1/log_pb.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
import { Run_State } from "../gen/latchkey/v1/sync_pb.ts";
import { Forward_State } from "../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../store/contract.ts";
import { keyOf, partsOf, under } from "../store/keys.ts";
import { createRecords } from "../store/records.ts";

type Revised = Message & { revision: bigint };

/** The revision is the store's to know: it is filled in when a record is read, and not stored in it. */
const complete = (value: Revised, revision: number) => {
  value.revision = BigInt(revision);
};
const strip = <T extends Revised>(value: T): T => ({ ...value, revision: 0n });

interface Filing {
  /** Of connections of this provider, the fields that notifications find them by. */
  readonly fieldsOf: (provider: string) => readonly string[];
}

/** Everything that is stored, and under which keys. */
export function createCollections(store: Store, { fieldsOf }: Filing) {
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
    signingSecrets: createRecords({
      store,
      name: "signing-secrets",
      schema: SigningSecretsSchema,
      secret: true,
      key: ({ environment }: SigningSecrets) => [environment],
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
        // Those that are well are nearly all, and are found without it.
        state: ({ ref, state }: Connection) => (isWell(state) ? [] : [[ref?.environment ?? "", String(state)]]),
        // Those of one account at the provider. What was filed before there was this key is not found by it.
        account: ({ ref, connectionConfig }: Connection) => {
          const account = accountOf(connectionConfig);
          return ref === undefined || account === undefined ? [] : [[ref.environment, ref.integration, account]];
        },
      },
      facets: {
        lookups: (connection: Connection) => connectionLookups(connection, fieldsOf(connection.provider)),
        override: ({ webhookUrlOverride }: Connection) =>
          webhookUrlOverride === "" ? undefined : Buffer.from(webhookUrlOverride),
      },
    }),
    lookupFilings: createRecords({
      store,
      name: "lookup-filing",
      schema: LookupFilingSchema,
      key: ({ provider }: LookupFiling) => [provider],
    }),
    connectSessions: createRecords({
      store,
      name: "connect-session",
      schema: ConnectSessionSchema,
      key: ({ id }: ConnectSession) => [id],
      complete,
      strip,
      indexes: { age: ({ createdAt }: ConnectSession) => [[bornAt(createdAt)]] },
    }),
    pendingAuthorizations: createRecords({
      store,
      name: "pending-authorization",
      schema: PendingAuthorizationSchema,
      secret: true,
      key: ({ stateHash }: PendingAuthorization) => [stateHash],
      indexes: {
        age: ({ createdAt }: PendingAuthorization) => [[bornAt(createdAt)]],
        session: ({ sessionId }: PendingAuthorization) => [[sessionId]],
      },
    }),
    pendingDevices: createRecords({
      store,
      name: "pending-device",
      schema: PendingDeviceSchema,
      secret: true,
      key: ({ id }: PendingDevice) => [id],
      indexes: {
        age: ({ createdAt }: PendingDevice) => [[bornAt(createdAt)]],
        waiting: (device: PendingDevice) => (isWaiting(device) ? [[]] : []),
      },
    }),
    connectOutcomes: createRecords({
      store,
      name: "connect-outcome",
      schema: ConnectOutcomeSchema,
      key: ({ listenerHash }: ConnectOutcome) => [listenerHash],
      indexes: { age: ({ createdAt }: ConnectOutcome) => [[bornAt(createdAt)]] },
    }),
    audit: createRecords({
      store,
      name: "audit",
      schema: AuditEventSchema,
      key: ({ id }: AuditEvent) => [id],
      indexes: { environment: ({ environment }: AuditEvent) => (environment === "" ? [] : [[environment]]) },
    }),
    logs: createRecords({
      store,
      name: "log",
      schema: LogSchema,
      key: ({ environment, id }: Log) => [environment, id],
      indexes: {
        integration: ({ environment, integration }: Log) => (integration === "" ? [] : [[environment, integration]]),
        connection: ({ environment, integration, connectionId }: Log) =>
          connectionId === "" ? [] : [[environment, integration, connectionId]],
        operation: ({ environment, operation }: Log) => [[environment, operation]],
        failed: ({ environment, failed }: Log) => (failed ? [[environment]] : []),
      },
    }),
    refreshes: createRecords({
      store,
      name: "refresh",
      schema: RefreshRecordSchema,
      key: ({ environment, integration, connectionId }: RefreshRecord) => [environment, integration, connectionId],
      indexes: { look: ({ lookAt }: RefreshRecord) => (lookAt === undefined ? [] : [[sortable(timestampMs(lookAt))]]) },
    }),
    notifications: createRecords({
      store,
      name: "notification",
      schema: StoredNotificationSchema,
      key: ({ notification }: StoredNotification) => [notification?.environment ?? "", notification?.id ?? ""],
      complete: ({ notification }, revision) => {
        if (notification !== undefined) complete(notification, revision);
      },
    }),
    forwards: createRecords({
      store,
      name: forwardSpace,
      schema: StoredForwardSchema,
      key: ({ environment, id }: StoredForward) => [environment, id],
      keyParts: 2,
      indexes: {
        // The forwards of a notification, and all of them by when they were made.
        made: ({ environment, sequence }: StoredForward) => [[environment, sequence]],
        connection: ({ environment, integration, connectionId, sequence }: StoredForward) =>
          connectionId === "" ? [] : [[environment, integration, connectionId, sequence]],
        dead: ({ environment, state, sequence }: StoredForward) =>
          state === Forward_State.DEAD ? [[environment, sequence]] : [],
      },
      facets: { waiting: waitingOf },
    }),
    channels: createRecords({
      store,
      name: "channel",
      schema: StoredChannelSchema,
      key: ({ channel }: StoredChannel) => [channel?.connection?.environment ?? "", channel?.id ?? ""],
      keyParts: 2,
      complete: ({ channel }, revision) => {
        if (channel !== undefined) complete(channel, revision);
      },
      strip: (value) => (value.channel === undefined ? value : { ...value, channel: strip(value.channel) }),
      indexes: {
        // The channels of a resource, of a connection, of an integration.
        slot: (stored: StoredChannel) => [slotOf(stored)],
        // Those that are, or are to be, the one of their resource: a first one rests on there being none.
        wanted: (stored: StoredChannel) => (isWanted(stored) ? [slotOf(stored)] : []),
        due: ({ dueMs }: StoredChannel) => (dueMs > 0 ? [[sortable(dueMs)]] : []),
      },
      facets: { token: tokenOf, state: ({ channel }: StoredChannel) => Buffer.from(String(channel?.state ?? 0)) },
    }),
    syncs: createRecords({
      store,
      name: "sync",
      schema: StoredSyncSchema,
      key: ({ environment, integration, connectionId, name, variant }: StoredSync) => [
        ...[environment, integration, connectionId],
        ...[name, variant],
      ],
      keyParts: 5,
      complete,
      strip,
      indexes: {
        due: ({ dueMs, paused }: StoredSync) => (dueMs > 0 && !paused ? [[sortable(dueMs)]] : []),
      },
    }),
    runs: createRecords({
      store,
      name: "run",
      schema: StoredRunSchema,
      key: ({ run }: StoredRun) => [run?.connection?.environment ?? "", run?.id ?? ""],
      keyParts: 2,
      indexes: {
        connection: ({ run }: StoredRun) => {
          const { environment = "", integration = "", id = "" } = run?.connection ?? {};
          return [[environment, integration, id, run?.id ?? ""]];
        },
        queued: ({ run, dueMs }: StoredRun) => (run?.state === Run_State.QUEUED ? [[sortable(dueMs)]] : []),
        running: ({ run }: StoredRun) => (run?.state === Run_State.RUNNING ? [[]] : []),
      },
    }),
    destinations: createRecords({
      store,
      name: "destination",
      schema: StoredDestinationSchema,
      key: ({ environment, url }: StoredDestination) => [environment, hash("sha256", url)],
    }),
    recordModels: createRecords({
      store,
      name: "record-model",
      schema: RecordModelSchema,
      key: ({ connectionNumber, model, variant }: RecordModel) => [String(connectionNumber), model, variant],
      keyParts: 3,
      indexes: { touched: ({ touchedMs }: RecordModel) => (touchedMs === 0 ? [] : [[sortable(touchedMs)]]) },
    }),
  } as const;
}

/** What the outbox knows of a forward that waits; of any other, nothing. */
function waitingOf(forward: StoredForward): Uint8Array | undefined {
  if (forward.state !== Forward_State.PENDING) return undefined;
  const { address, overrideUrl, lane, number, createdAt, updatedAt, nextAttemptAt, attemptCount } = forward;
  const dueMs = nextAttemptAt === undefined ? 0 : timestampMs(nextAttemptAt);
  const createdMs = createdAt === undefined ? 0 : timestampMs(createdAt);
  const sinceMs = updatedAt === undefined ? 0 : timestampMs(updatedAt);
  const waiting = { address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first: attemptCount === 0 };
  return toBinary(WaitingForwardSchema, create(WaitingForwardSchema, waiting));
}

const slotOf = ({ channel }: StoredChannel): readonly string[] => {
  const { environment = "", integration = "", id = "" } = channel?.connection ?? {};
  return [environment, integration, id, channel?.resourceKind ?? "", channel?.resource ?? ""];
};

/** In the place of the hash of a token that we do not know, of a channel that a script has made. */
export const unknownToken = "-".repeat(64);

/** What notifications of a channel are proven by: SHA-256 of its token in hex, and whose channel it is. */
function tokenOf({ tokenHash, channel }: StoredChannel): Uint8Array | undefined {
  const { integration = "", id = "" } = channel?.connection ?? {};
  const known = channel?.managed === false ? unknownToken : tokenHash;
  return known === "" ? undefined : Buffer.from(`${known}${integration}\0${id}`);
}

/** When a record was made, as `sortable` has it. */
const bornAt = (at: Timestamp | undefined): string => sortable(at === undefined ? 0 : timestampMs(at));

export const isWell = (state: Connection_State): boolean =>
  state === Connection_State.ACTIVE || state === Connection_State.UNSPECIFIED;

export const isWaiting = ({ authorization }: PendingDevice): boolean =>
  authorization?.state === DeviceAuthorization_State.PENDING;

/** A time as text that sorts as it does; what lies before 1970 is over in any case. */
const sortable = (ms: number): string => String(Math.max(0, Math.trunc(ms))).padStart(16, "0");

export type Collections = ReturnType<typeof createCollections>;

// Kept beside the collections, under keys of their own.

/** Sealed. */
export const credentialsKey = (environment: string, integration: string, id: string) =>
  keyOf("credentials", environment, integration, id);
/** Sealed. */
export const integrationSecretsKey = (environment: string, key: string) =>
  keyOf("integration-secrets", environment, key);
/** As `signingSecrets` files them: for a commit that rests on there being none. */
export const signingSecretsKey = (environment: string) => keyOf("signing-secrets", environment);
/** As `refreshes` files it: for a commit that rests on there being none. */
export const refreshKey = (environment: string, integration: string, id: string) =>
  keyOf("refresh", environment, integration, id);
/** Keys of the secondary index of those that are to be looked at by then; each ends in the connection's. */
export const toBeLookedAt = (nowMs: number) => ({
  from: under("refresh.look").from,
  to: keyOf("refresh.look", sortable(nowMs + 1)),
});
/** Keys of the secondary index of connections that are not well: environment, state, and the connection's. */
export const unwellSpace = "connection.state";
/** Under which connections with a forward address of their own are known: environment, integration and id. */
export const overrideSpace = "connection.override";
/** Under which forwards are: environment and id. */
export const forwardSpace = "forward";
/** Under which forwards that wait are known to the outbox: environment and id. */
export const waitingSpace = "forward.waiting";
/** Of a message that a provider has an id for: that it came. */
export const seenKey = (environment: string, integration: string, message: string) =>
  keyOf("notification-seen", environment, integration, hash("sha256", message));
/** A message that comes again within this time is not forwarded again. */
export const seenForMs = 24 * 3_600_000;
/** Of such a mark that has outlived its notification: when it came, and the parts of the mark's key. */
export const orphanedSeenKey = (seen: string, cameMs: number) =>
  keyOf("notification-seen.orphaned", sortable(cameMs), ...partsOf(seen).slice(1));
export const orphanedSeenUntil = (ms: number) => ({
  from: under("notification-seen.orphaned").from,
  to: keyOf("notification-seen.orphaned", sortable(ms + 1)),
});
/** The mark's own key, by such a key. */
export const seenKeyOf = (orphaned: string) => keyOf("notification-seen", ...partsOf(orphaned).slice(2));
/** Keys of what the notifications of channels are proven by, and of their states: environment and id. */
export const channelTokenSpace = "channel.token";
export const channelStateSpace = "channel.state";
/** Of a channel, what was last heard over it. */
export const channelHeardKey = (environment: string, id: string) => keyOf("channel-heard", environment, id);
/** Of a channel, what looks at how it is heard remember. */
export const channelRhythmKey = (environment: string, id: string) => keyOf("channel-rhythm", environment, id);
/** Keys of the secondary index of channels about which something is to be done by then; each ends in the channel's. */
export const channelsDue = (nowMs: number) => ({
  from: under("channel.due").from,
  to: keyOf("channel.due", sortable(nowMs + 1)),
});
/** Keys of the secondary index of syncs that are due by then; each ends in the sync's. */
export const syncsDue = (nowMs: number) => ({
  from: under("sync.due").from,
  to: keyOf("sync.due", sortable(nowMs + 1)),
});
/** Keys of the secondary index of runs that may begin by then; each ends in the run's. */
export const runsDue = (nowMs: number) => ({
  from: under("run.queued").from,
  to: keyOf("run.queued", sortable(nowMs + 1)),
});
/** When, by such a key. */
export const timeOfDueKey = (key: string): number => Number(partsOf(key)[1]);
/** Sealed: what a run was given and what it gave, in JSON. */
export const runInputKey = (environment: string, id: string) => keyOf("run-input", environment, id);
export const runOutputKey = (environment: string, id: string) => keyOf("run-output", environment, id);
// Records that syncs saved, in the space of their model: by their place, and by a hash of their id.

/** Sealed. As many digits as the largest number that is exact. */
export const recordKey = (space: string, sequence: bigint) =>
  keyOf("record", space, String(sequence).padStart(16, "0"));
export const recordsUnder = (space: string) => under("record", space);
/** Its place, by such a key. */
export const recordSequence = (key: string): bigint => BigInt(partsOf(key)[2] ?? 0);
/** Sealed. */
export const recordPlaceKey = (space: string, digest: string) => keyOf("record-place", space, digest);
export const recordPlacesUnder = (space: string) => under("record-place", space);
export const recordPlaceDigest = (key: string): string => partsOf(key)[2] ?? "";
/** Records that are deleted, by when; removed after a while. */
export const deletedRecordKey = (deletedMs: number, space: string, digest: string) =>
  keyOf("record-deleted", sortable(deletedMs), space, digest);
export const deletedRecordsUntil = (ms: number) => ({
  from: under("record-deleted").from,
  to: keyOf("record-deleted", sortable(ms + 1)),
});
/** Of a model whose records were all dropped, and of a deleted connection: what is still to be removed. */
export const droppedSpaceKey = (space: string) => keyOf("record-dropped", space);
export const droppedSpaces = under("record-dropped");
export const droppedConnectionKey = (connectionNumber: number) =>
  keyOf("record-dropped-connection", String(connectionNumber));
export const droppedConnections = under("record-dropped-connection");
/** Keys of the secondary index of models that no run had to do with since; each ends in the model's. */
export const recordModelsUntouchedSince = (ms: number) => ({
  from: under("record-model.touched").from,
  to: keyOf("record-model.touched", sortable(ms)),
});
/** Sealed: what ids are hashed with. */
export const recordDigestKey = keyOf("record-digest-key");
/** Keys of what connections are filed under, each with its digests: environment, integration and id. */
export const lookupSpace = "connection.lookups";
export const keyDigestKey = (digest: string) => keyOf("key-digest", digest);
export const connectionTouchKey = (environment: string, integration: string, id: string) =>
  keyOf("touch", "connection", environment, integration, id);
export const keyTouchKey = (id: string) => keyOf("touch", "key", id);
export const connectionCounterKey = keyOf("counter", "connection");

/** Whoever renews a connection's credentials has it. */
export const refreshLease = ({ environment, integration, id }: ConnectionRef): string =>
  `refresh/${environment}/${integration}/${id}`;
