import { LRUCache } from "lru-cache";
import { envelopeOf, payloadOf } from "../core/notification-payload.ts";
import type { StoredForward, StoredNotification } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Collections } from "./collections.ts";

/** What is sent, byte for byte the same each time: of a notification made anew from what came, so that it is kept once. */
export interface ForwardBodies {
  of(forward: StoredForward): Promise<Uint8Array>;
  /** What a notification said, as JSON text; undefined: it is gone. */
  payloadOf(at: { readonly environment: string; readonly id: string }): Promise<string | undefined>;
  /** It has just come, and will be asked for at once, by so many forwards. */
  know(notification: StoredNotification, forwards: number): void;
  /** It was delivered, and is seldom asked for again. */
  delivered(forward: StoredForward): void;
}

const keptBytes = 32 * 1024 * 1024;

const utf8Of = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString();

/** Of a notification, what all of its forwards say. */
class Payload {
  readonly from: string;
  /** Forwards of it that are not delivered yet. */
  left: number;
  /** Until somebody wants to send it. */
  #stored: StoredNotification | undefined;
  #json = "";

  constructor(from: string, stored: StoredNotification, left: number) {
    this.from = from;
    this.#stored = stored;
    this.left = left;
  }

  get json(): string {
    if (this.#stored !== undefined) {
      const { notification, payloadForm } = this.#stored;
      const { headers, body } = notification ?? { headers: [], body: new Uint8Array() };
      const passed = headers.map(({ name, value }) => ({ name, value: utf8Of(value) }));
      this.#json = payloadOf(payloadForm, passed, body);
      this.#stored = undefined;
    }
    return this.#json;
  }
}

/** What one takes beside what it says, about. */
const apartBytes = 1_000;

export function createForwardBodies({ notifications }: Pick<Collections, "notifications">): ForwardBodies {
  const payloads = new LRUCache<string, Payload>({ maxSize: keptBytes });
  const keyOf = (environment: string, id: string) => `${environment}\0${id}`;

  function know(stored: StoredNotification, left: number): Payload {
    const { notification } = stored;
    if (notification === undefined) throw new Error("a stored notification holds one");
    const { environment, id, provider, headers, body } = notification;
    const payload = new Payload(provider, stored, left);
    let size = apartBytes + 2 * body.length;
    for (const { name, value } of headers) size += 2 * (name.length + value.length);
    payloads.set(keyOf(environment, id), payload, { size });
    return payload;
  }

  async function payloadFor(environment: string, id: string): Promise<Payload | undefined> {
    const known = payloads.get(keyOf(environment, id));
    if (known !== undefined) return known;
    const stored = await notifications.get(environment, id);
    if (stored === undefined) return undefined;
    return know(stored.value, Math.max(1, stored.value.notification?.matches.length ?? 0));
  }

  return {
    know: (notification, forwards) => void know(notification, forwards),
    delivered({ environment, notificationId }) {
      const key = keyOf(environment, notificationId);
      const payload = payloads.get(key);
      if (payload === undefined) return;
      payload.left -= 1;
      if (payload.left === 0) payloads.delete(key);
    },
    payloadOf: async ({ environment, id }) => (await payloadFor(environment, id))?.json,
    async of(forward) {
      const { type, body, integration, connectionId } = forward;
      if (forward.notificationId === "") return body;
      const found = await payloadFor(forward.environment, forward.notificationId);
      if (found === undefined) throw new Error("the notification of a forward that waits is gone");
      const { from, json: payload } = found;
      return envelopeOf({
        from,
        providerConfigKey: integration,
        type,
        payload,
        ...(connectionId !== "" && { connectionId }),
      });
    },
  };
}
