import { hash } from "node:crypto";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { bytesFor } from "../../base/message-bytes.ts";
import {
  type StoredDestination,
  StoredDestinationSchema,
  type StoredForward,
  StoredForwardSchema,
  type StoredNotification,
  StoredNotificationSchema,
  WaitingForwardSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf, partsOf, under } from "../../store/keys.ts";
import { createRecords } from "../../store/records.ts";
import { complete } from "../stored/revisions.ts";
import { sortable } from "../stored/sortable-time.ts";

/** Records of received notifications, and of forwards on their way to applications. */
export function createWebhookCollections(store: Store) {
  return {
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
      name: "forward",
      schema: StoredForwardSchema,
      key: ({ environment, id }: StoredForward) => [environment, id],
      keyParts: 2,
      indexes: {
        // The forwards of a notification, and all forwards by creation time.
        made: ({ environment, sequence }: StoredForward) => [[environment, sequence]],
        connection: ({ environment, integration, connectionId, sequence }: StoredForward) =>
          connectionId === "" ? [] : [[environment, integration, connectionId, sequence]],
        dead: ({ environment, state, sequence }: StoredForward) =>
          state === Forward_State.DEAD ? [[environment, sequence]] : [],
      },
      facets: { waiting: waitingOf },
    }),
    destinations: createRecords({
      store,
      name: "destination",
      schema: StoredDestinationSchema,
      key: ({ environment, url }: StoredDestination) => [environment, hash("sha256", url)],
    }),
  } as const;
}

/** Returns the outbox entry of a forward; undefined unless the forward is pending. */
function waitingOf(forward: StoredForward): Uint8Array | undefined {
  if (forward.state !== Forward_State.PENDING) return undefined;
  const { address, overrideUrl, lane, number, createdAt, updatedAt, nextAttemptAt, attemptCount } = forward;
  const dueMs = nextAttemptAt === undefined ? 0 : timestampMs(nextAttemptAt);
  const createdMs = createdAt === undefined ? 0 : timestampMs(createdAt);
  const sinceMs = updatedAt === undefined ? 0 : timestampMs(updatedAt);
  const first = attemptCount === 0;
  return bytesOfWaiting({
    $typeName: "latchkey.stored.v1.WaitingForward",
    address,
    overrideUrl,
    lane,
    number,
    dueMs,
    sinceMs,
    createdMs,
    first,
  });
}

const bytesOfWaiting = bytesFor(WaitingForwardSchema);

export type WebhookCollections = ReturnType<typeof createWebhookCollections>;

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
