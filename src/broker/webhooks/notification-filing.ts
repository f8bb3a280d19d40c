import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { bytesFor } from "../../base/message-bytes.ts";
import {
  type NotificationSeen,
  NotificationSeenSchema,
  type StoredForward,
  type StoredNotification,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, StaleWrite, type Store } from "../../store/contract.ts";
import type { NewForwards } from "../deliveries/new-forwards.ts";
import { seenForMs, seenKey, type WebhookCollections } from "../deliveries/webhook-collections.ts";
import { timestampNow } from "../stored/timestamp-now.ts";

/** Stores notifications, each with its forwards and the mark of its message in one commit. */
export interface NotificationFiling {
  /** Returns false if the message has come before. */
  file(filing: NewNotification): Promise<boolean>;
}

export interface NewNotification {
  readonly stored: StoredNotification;
  readonly forwards: readonly StoredForward[];
  /** Further changes for the same commit. */
  readonly alongside: readonly Change[];
  readonly nowMs: number;
}

interface NotificationFilingOptions {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly forwards: NewForwards;
}

const bytesOfSeen = bytesFor(NotificationSeenSchema);

export function createNotificationFiling(options: NotificationFilingOptions): NotificationFiling {
  const { store, collections, forwards: newForwards } = options;

  interface RepeatedMessage extends Pick<NewNotification, "forwards" | "nowMs"> {
    readonly key: string;
    readonly value: Uint8Array;
    readonly changes: readonly Change[];
  }

  /** Stores a repeated message: after the repeat window its forwards are created again, under the same ids. */
  async function fileRepeated({ key, value, changes, forwards, nowMs }: RepeatedMessage): Promise<boolean> {
    for (;;) {
      const seen = await store.get(key);
      if (seen !== undefined && isWithinWindow(seen.value, nowMs)) return false;
      const before = await collections.forwards.getMany(forwards.map(({ environment, id }) => [environment, id]));
      const renewed = forwards.flatMap((after, i) => collections.forwards.change({ before: before[i], after }));
      try {
        await store.commit([{ key, value, expect: seen?.revision ?? 0 }, ...changes, ...renewed]);
        return true;
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  return {
    file({ stored, forwards, alongside, nowMs }) {
      const { notification } = stored;
      if (notification === undefined) throw new Error("the stored notification is empty");
      const { environment, integration, messageId, id } = notification;
      const changes = [...collections.notifications.added(stored), ...alongside];
      if (messageId === "") {
        // These forwards have ids derived from the new notification's id, so none exists. With a message id, earlier
        // ones may exist.
        return store
          .commit([...changes, ...forwards.flatMap((forward) => collections.forwards.added(forward))])
          .then(isNew);
      }
      const key = seenKey(environment, integration, messageId);
      const receivedAt = timestampNow(nowMs);
      const seen: NotificationSeen = {
        $typeName: "latchkey.stored.v1.NotificationSeen",
        notificationId: id,
        receivedAt,
      };
      const value = bytesOfSeen(seen);
      return store
        .commit([{ key, value, expect: 0 }, ...changes, ...newForwards.changes(forwards)])
        .then(isNew, (error: unknown) => {
          if (!(error instanceof StaleWrite)) throw error;
          return fileRepeated({ key, value, changes, forwards, nowMs });
        });
    },
  };
}

const isNew = () => true;

function isWithinWindow(seen: Uint8Array, nowMs: number): boolean {
  const { receivedAt } = fromBinary(NotificationSeenSchema, seen);
  return receivedAt !== undefined && nowMs - timestampMs(receivedAt) < seenForMs;
}
