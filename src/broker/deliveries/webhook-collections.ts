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
import { createRecords } from "../../store/records.ts";
import { complete } from "../stored/revisions.ts";

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
    ...{ address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first },
  });
}

const bytesOfWaiting = bytesFor(WaitingForwardSchema);
