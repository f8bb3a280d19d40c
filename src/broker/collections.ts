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

/** Everything that is stored, and under which keys. */
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

// Kept beside the collections, under keys of their own.

/** What lies under its time, from the first up to then. */
const until = (space: string, ms: number) => ({ from: under(space).from, to: keyOf(space, sortable(ms + 1)) });

/** Sealed. */
export const credentialsKey = (environment: string, integration: string, id: string) =>
  keyOf("credentials", environment, integration, id);
/** As `integrations` files it: for whoever reads it together with its secrets. */
export const integrationKey = (environment: string, key: string) => keyOf("integration", environment, key);
/** Sealed. */
export const integrationSecretsKey = (environment: string, key: string) =>
  keyOf("integration-secrets", environment, key);
/** As `signingSecrets` files them: for a commit that rests on there being none. */
export const signingSecretsKey = (environment: string) => keyOf("signing-secrets", environment);
/** As `refreshes` files it: for a commit that rests on there being none. */
export const refreshKey = (environment: string, integration: string, id: string) =>
  keyOf("refresh", environment, integration, id);
/** Keys of the secondary index of those that are to be looked at by then; each ends in the connection's. */
export const toBeLookedAt = (nowMs: number) => until("refresh.look", nowMs);
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
export const channelsDue = (nowMs: number) => until("channel.due", nowMs);
/** Keys of the secondary index of syncs that are due by then; each ends in the sync's. */
export const syncsDue = (nowMs: number) => until("sync.due", nowMs);
/** Keys of the secondary index of runs that may begin by then; each ends in the run's. */
export const runsDue = (nowMs: number) => until("run.queued", nowMs);
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
export const deletedRecordsUntil = (ms: number) => until("record-deleted", ms);
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
