import { LRUCache } from "lru-cache";
import { payloadOf } from "../../core/notifications/payload.ts";
import type { StoredForward, StoredNotification } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { webhookBody } from "./envelope.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/**
 * Bodies of forwards, byte for byte the same for each attempt. The body of a notification is rebuilt from the stored
 * notification, so that it is stored once.
 */
export interface ForwardBodies {
  of(forward: StoredForward): Promise<Uint8Array>;
  /** Returns the payload of a notification as JSON text; undefined if the notification is gone. */
  payloadOf(at: { readonly environment: string; readonly id: string }): Promise<string | undefined>;
  /** Caches the payload of a new notification, which `forwards` forwards will need soon. */
  cache(notification: StoredNotification, forwards: number): void;
  /** Drops the payload of a notification that was not stored after all. */
  drop(notification: StoredNotification): void;
  /** Counts a delivered forward: its payload is seldom needed again. */
  delivered(forward: StoredForward): void;
}

const keptBytes = 32 * 1024 * 1024;

const utf8Of = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString();

interface Payload {
  readonly from: string;
  readonly json: string;
  /** Number of its forwards that are not delivered yet. */
  undelivered: number;
}

export function createForwardBodies({ notifications }: Pick<WebhookCollections, "notifications">): ForwardBodies {
  const payloads = new LRUCache<string, Payload>({
    maxSize: keptBytes,
    sizeCalculation: ({ json }) => 200 + json.length,
  });
  const keyOf = (environment: string, id: string) => `${environment}\0${id}`;

  function cache({ notification, payloadForm }: StoredNotification, undelivered: number): Payload {
    if (notification === undefined) throw new Error("the stored notification is empty");
    const { environment, id, provider, headers, body } = notification;
    const passed = headers.map(({ name, value }) => ({ name, value: utf8Of(value) }));
    const payload = { from: provider, json: payloadOf(payloadForm, passed, body), undelivered };
    payloads.set(keyOf(environment, id), payload);
    return payload;
  }

  async function payloadFor(environment: string, id: string): Promise<Payload | undefined> {
    const known = payloads.get(keyOf(environment, id));
    if (known !== undefined) return known;
    const stored = await notifications.get(environment, id);
    if (stored === undefined) return undefined;
    return cache(stored.value, Math.max(1, stored.value.notification?.matches.length ?? 0));
  }

  return {
    cache: (notification, forwards) => void cache(notification, forwards),
    drop({ notification }) {
      if (notification !== undefined) payloads.delete(keyOf(notification.environment, notification.id));
    },
    delivered({ environment, notificationId }) {
      const key = keyOf(environment, notificationId);
      const payload = payloads.get(key);
      if (payload === undefined) return;
      payload.undelivered -= 1;
      if (payload.undelivered === 0) payloads.delete(key);
    },
    payloadOf: async ({ environment, id }) => (await payloadFor(environment, id))?.json,
    async of(forward) {
      const { type, body, integration, connectionId } = forward;
      if (forward.notificationId === "") return body;
      const found = await payloadFor(forward.environment, forward.notificationId);
      if (found === undefined) throw new Error("the notification of a pending forward is missing");
      const { from, json: payload } = found;
      return webhookBody({
        from,
        providerConfigKey: integration,
        type,
        payload,
        ...(connectionId !== "" && { connectionId }),
      });
    },
  };
}
