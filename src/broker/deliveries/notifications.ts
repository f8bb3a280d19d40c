import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { StoredNotification } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Notification } from "../../gen/latchkey/v1/webhook_pb.ts";
import { partsOf } from "../../store/keys.ts";
import type { PageRequest, PositionedRecord, StoredRecordOf } from "../../store/records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type BoundedPage, type PageOf, siftedPage } from "../stored/paging.ts";
import type { Destinations } from "./destinations.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Notifications that providers sent. */
export interface Notifications {
  get(at: { readonly environment: string; readonly id: string }): Promise<Notification>;
  /** Lists notifications, newest first. */
  list(filter: NotificationFilter, page: BoundedPage): Promise<PageOf<Notification>>;
}

export interface NotificationFilter {
  readonly environment: string;
  /** Empty for any. */
  readonly integration: string;
  readonly connectionId: string;
  /** Only notifications that match no connection. */
  readonly unmatched: boolean;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
  /** Empty for any. */
  readonly kind: string;
  /** Text that the message ID, a header's value or the body contains; empty for any. */
  readonly text: string;
}

/** Notifications read at once: they are read with their bodies, of at most 5 MiB each. */
const readAtOnce = 20;

type NotificationSource = (
  request: Pick<PageRequest, "after" | "limit">,
) => Promise<readonly PositionedRecord<SearchedNotification | undefined>[]>;

interface SearchedNotification {
  readonly notification: Notification;
  readonly hasText: boolean;
}

interface NotificationsOptions {
  readonly collections: SetupCollections & WebhookCollections;
  readonly destinations: Pick<Destinations, "isCurrent">;
}

export function createNotifications({ collections, destinations }: NotificationsOptions): Notifications {
  const { notifications, forwards, integrations } = collections;

  /** Returns a notification as a list shows it, its size there, and whether it has the text. */
  function shown(found: StoredRecordOf<StoredNotification> | undefined, text: string) {
    const notification = found === undefined ? undefined : ofNow(found.value);
    if (found === undefined || notification === undefined) return { value: undefined, bytes: 0 };
    const value = { notification: outlineOf(notification), hasText: text === "" || isFound(notification, text) };
    return { value, bytes: found.bytes - notification.body.length };
  }

  function ofNow({ notification, environmentId }: StoredNotification): Notification | undefined {
    const { environment = "" } = notification ?? {};
    return destinations.isCurrent({ environment, environmentId }) ? notification : undefined;
  }

  const all =
    ({ environment, text }: NotificationFilter): NotificationSource =>
    async (request) => {
      const found = await notifications.page({ under: [environment], reverse: true, ...request });
      return found.map((one) => ({ ...one, ...shown(one, text) }));
    };

  /** Reads the notifications of one connection through its forwards, which skips those of other connections. */
  const ofConnection =
    ({ environment, integration, connectionId, text }: NotificationFilter): NotificationSource =>
    async (request) => {
      const under = [environment, integration, connectionId];
      const found = await forwards.pageBy("connection", { under, reverse: true, ...request });
      const stored = await notifications.getMany(found.map(({ value }) => [environment, value.notificationId]));
      // A forward without a notification is an event of our own. A second address makes a second forward of the same
      // notification, right after the first; a page may begin with it.
      let [before] = partsOf(request.after ?? "");
      return found.map(({ value: { notificationId }, position, ...one }, i) => {
        const isAgain = notificationId === before;
        before = notificationId;
        return { ...one, position, ...shown(isAgain ? undefined : stored[i], text) };
      });
    };

  async function sourceOf(filter: NotificationFilter): Promise<NotificationSource> {
    const { environment, integration, connectionId } = filter;
    if (integration === "" || connectionId === "") return all(filter);
    const at = await integrations.get(environment, integration);
    return at?.value.noForward === true ? all(filter) : ofConnection(filter);
  }

  return {
    async get({ environment, id }) {
      const found = namesNothing(environment, id) ? undefined : await notifications.get(environment, id);
      const notification = found === undefined ? undefined : ofNow(found.value);
      if (notification === undefined) {
        throw new Fault("not_found", `notification "${id}" does not exist`);
      }
      return notification;
    },
    async list(filter, { maxBytes, ...page }) {
      const { environment, integration, connectionId, unmatched, kind } = filter;
      const { sinceMs = 0, untilMs = Number.POSITIVE_INFINITY } = filter;
      const isNone = namesNothing(environment, integration, connectionId);
      const fits = (notification: Notification): boolean =>
        (integration === "" || notification.integration === integration) &&
        (connectionId === "" || notification.matches.some(({ id }) => id === connectionId)) &&
        (kind === "" || notification.kinds.includes(kind)) &&
        !(unmatched && notification.matches.length > 0) &&
        receivedAt(notification) < untilMs;
      const { items, next } = await siftedPage<SearchedNotification | undefined>({
        question: ["notifications", filter],
        page,
        read: isNone ? () => Promise.resolve([]) : await sourceOf(filter),
        isWanted: (found) => found?.hasText === true && fits(found.notification),
        isPast: (found) => found !== undefined && receivedAt(found.notification) < sinceMs,
        maxBytes,
        chunk: readAtOnce,
      });
      return { items: items.flatMap((found) => found?.notification ?? []), next };
    },
  };
}

export const receivedAt = ({ receivedAt: at }: Notification): number => (at === undefined ? 0 : timestampMs(at));

/** Limits the bytes of a body that are searched. */
const searchedBytes = 64 * 1024;

/** Whether the message ID, a header's value or the beginning of the body contains the text. */
const isFound = ({ messageId, headers, body }: Notification, text: string): boolean =>
  messageId.includes(text) ||
  headers.some(({ value }) => textIn(value).includes(text)) ||
  Buffer.from(body.buffer, body.byteOffset, Math.min(body.byteLength, searchedBytes)).includes(text);

const textIn = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString();

/** Drops the body, which may be larger than a page. */
export const outlineOf = (notification: Notification): Notification => ({ ...notification, body: new Uint8Array() });
