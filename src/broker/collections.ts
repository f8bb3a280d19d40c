import { hash } from "node:crypto";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../store/contract.ts";
import { keyOf, partsOf, under } from "../store/keys.ts";
import { createLogCollections } from "./audit/log-collections.ts";
import { createChannelCollections } from "./channels/channel-collections.ts";
import { createAuthorizationCollections } from "./connect/authorization-collections.ts";
import { createConnectionCollections, type LookupFieldNames } from "./connections/connection-collections.ts";
import { createWebhookCollections } from "./deliveries/webhook-collections.ts";
import { createSetupCollections } from "./setup/setup-collections.ts";
import { sortable } from "./stored/sortable-time.ts";
import { createSyncCollections } from "./syncs/sync-collections.ts";

/** All stored collections and their keys. */
export function createCollections(store: Store, filing: LookupFieldNames) {
  return {
    ...createSetupCollections(store),
    ...createConnectionCollections(store, filing),
    ...createAuthorizationCollections(store),
    ...createWebhookCollections(store),
    ...createChannelCollections(store),
    ...createSyncCollections(store),
    ...createLogCollections(store),
  } as const;
}

export type Collections = ReturnType<typeof createCollections>;

// Other keys, stored beside the collections.

/** The range of time-ordered keys in a space, from the first up to and including the given time. */
const until = (space: string, ms: number) => ({ from: under(space).from, to: keyOf(space, sortable(ms + 1)) });

/** The stored value is encrypted. */
export const credentialsKey = (environment: string, integration: string, id: string) =>
  keyOf("credentials", environment, integration, id);
/** The key that `integrations` uses, for callers that read an integration together with its secrets. */
export const integrationKey = (environment: string, key: string) => keyOf("integration", environment, key);
/** The stored value is encrypted. */
export const integrationSecretsKey = (environment: string, key: string) =>
  keyOf("integration-secrets", environment, key);
/** The key that `signingSecrets` uses, for commits on condition that no secrets are stored. */
export const signingSecretsKey = (environment: string) => keyOf("signing-secrets", environment);
/** The key that `refreshes` uses, for commits on condition that no record is stored. */
export const refreshKey = (environment: string, integration: string, id: string) =>
  keyOf("refresh", environment, integration, id);
/** Range of the secondary index of connections to examine by then; each key ends in the connection's key. */
export const toBeLookedAt = (nowMs: number) => until("refresh.look", nowMs);
/** Space of the secondary index of unhealthy connections. Keys: environment, state, and the connection's key. */
export const unwellSpace = "connection.state";
/** Index of the connections that have a forward address of their own. Keys: environment, integration and ID. */
export const overrideSpace = "connection.override";
/** Space of the forwards. Keys: environment and ID. */
export const forwardSpace = "forward";
/** Space in which the outbox finds waiting forwards. Keys: environment and ID. */
export const waitingSpace = "forward.waiting";
/** Key of the mark that a message was received, for messages that have a provider's ID. */
export const seenKey = (environment: string, integration: string, message: string) =>
  keyOf("notification-seen", environment, integration, hash("sha256", message));
/** A repeated message is not forwarded again within this time. */
export const seenForMs = 24 * 3_600_000;
/** Key for a mark that has outlived its notification: the arrival time, and the parts of the mark's key. */
export const orphanedSeenKey = (seen: string, cameMs: number) =>
  keyOf("notification-seen.orphaned", sortable(cameMs), ...partsOf(seen).slice(1));
export const orphanedSeenUntil = (ms: number) => ({
  from: under("notification-seen.orphaned").from,
  to: keyOf("notification-seen.orphaned", sortable(ms + 1)),
});
/** The mark's own key, from the key of an orphaned mark. */
export const seenKeyOf = (orphaned: string) => keyOf("notification-seen", ...partsOf(orphaned).slice(2));
/** Spaces of the proofs for channel notifications and of channel states. Keys: environment and ID. */
export const channelTokenSpace = "channel.token";
export const channelStateSpace = "channel.state";
/** Key of the last notification received over a channel. */
export const channelHeardKey = (environment: string, id: string) => keyOf("channel-heard", environment, id);
/** Key of what the scans remember about the notification rhythm of a channel. */
export const channelRhythmKey = (environment: string, id: string) => keyOf("channel-rhythm", environment, id);
/** Range of the secondary index of channels with a task due by then; each key ends in the channel's key. */
export const channelsDue = (nowMs: number) => until("channel.due", nowMs);
/** Range of the secondary index of syncs that are due by then; each key ends in the sync's key. */
export const syncsDue = (nowMs: number) => until("sync.due", nowMs);
/** Range of the secondary index of runs that may begin by then; each key ends in the run's key. */
export const runsDue = (nowMs: number) => until("run.queued", nowMs);
/** Reads the time from a key of such an index. */
export const timeOfDueKey = (key: string): number => Number(partsOf(key)[1]);
/** The stored value is encrypted: input and output of a run, as JSON. */
export const runInputKey = (environment: string, id: string) => keyOf("run-input", environment, id);
export const runOutputKey = (environment: string, id: string) => keyOf("run-output", environment, id);
// Records that syncs saved, in the space of their model: by their sequence number, and by a hash of their ID.

/** The stored value is encrypted. The sequence number has 16 digits, as many as the largest exact integer. */
export const recordKey = (space: string, sequence: bigint) =>
  keyOf("record", space, String(sequence).padStart(16, "0"));
export const recordsUnder = (space: string) => under("record", space);
/** Reads the sequence number from a record's key. */
export const recordSequence = (key: string): bigint => BigInt(partsOf(key)[2] ?? 0);
/** The stored value is encrypted. */
export const recordPlaceKey = (space: string, digest: string) => keyOf("record-place", space, digest);
export const recordPlacesUnder = (space: string) => under("record-place", space);
export const recordPlaceDigest = (key: string): string => partsOf(key)[2] ?? "";
/** Index of deleted records by the time of deletion; removed after the retention period. */
export const deletedRecordKey = (deletedMs: number, space: string, digest: string) =>
  keyOf("record-deleted", sortable(deletedMs), space, digest);
export const deletedRecordsUntil = (ms: number) => until("record-deleted", ms);
/** Keys of data still to be removed: of a model whose records were all dropped, and of a deleted connection. */
export const droppedSpaceKey = (space: string) => keyOf("record-dropped", space);
export const droppedSpaces = under("record-dropped");
export const droppedConnectionKey = (connectionNumber: number) =>
  keyOf("record-dropped-connection", String(connectionNumber));
export const droppedConnections = under("record-dropped-connection");
/** Range of the secondary index of models that no run has used since then; each key ends in the model's key. */
export const recordModelsUntouchedSince = (ms: number) => ({
  from: under("record-model.touched").from,
  to: keyOf("record-model.touched", sortable(ms)),
});
/** The stored value is encrypted: the key for hashing record IDs. */
export const recordDigestKey = keyOf("record-digest-key");
/** Index of lookup digests by connection. Keys: environment, integration and ID. */
export const lookupSpace = "connection.lookups";
export const keyDigestKey = (digest: string) => keyOf("key-digest", digest);
export const connectionTouchKey = (environment: string, integration: string, id: string) =>
  keyOf("touch", "connection", environment, integration, id);
export const keyTouchKey = (id: string) => keyOf("touch", "key", id);
export const connectionCounterKey = keyOf("counter", "connection");

/** Name of the lease held while a connection's credentials are refreshed. */
export const refreshLease = ({ environment, integration, id }: ConnectionRef): string =>
  `refresh/${environment}/${integration}/${id}`;
