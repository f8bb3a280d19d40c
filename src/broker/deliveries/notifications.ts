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
}

/** Notifications read at once: they are read with their bodies, of at most 5 MiB each. */
const readAtOnce = 20;

type NotificationSource = (
  request: Pick<PageRequest, "after" | "limit">,
) => Promise<readonly PositionedRecord<Notification | undefined>[]>;

interface NotificationsOptions {
  readonly collections: SetupCollections & WebhookCollections;
  readonly destinations: Pick<Destinations, "isCurrent">;
}

export function createNotifications({ collections, destinations }: NotificationsOptions): Notifications {
  const { notifications, forwards, integrations } = collections;

  /** Returns a notification as a list shows it, and its size there. */
  function shown(found: StoredRecordOf<StoredNotification> | undefined) {
    const notification = found === undefined ? undefined : ofNow(found.value);
    if (found === undefined || notification === undefined) return { value: undefined, bytes: 0 };
    return { value: outlineOf(notification), bytes: found.bytes - notification.body.length };
  }

  function ofNow({ notification, environmentId }: StoredNotification): Notification | undefined {
    const { environment = "" } = notification ?? {};
    return destinations.isCurrent({ environment, environmentId }) ? notification : undefined;
  }

  const all =
    ({ environment }: NotificationFilter): NotificationSource =>
    async (request) => {
      const found = await notifications.page({ under: [environment], reverse: true, ...request });
      return found.map((one) => ({ ...one, ...shown(one) }));
    };

  /** Reads the notifications of one connection through its forwards, which skips those of other connections. */
  const ofConnection =
    ({ environment, integration, connectionId }: NotificationFilter): NotificationSource =>
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
        return { ...one, position, ...shown(isAgain ? undefined : stored[i]) };
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
      const { environment, integration, connectionId, unmatched } = filter;
      const { sinceMs = 0, untilMs = Number.POSITIVE_INFINITY } = filter;
      const isNone = namesNothing(environment, integration, connectionId);
      const { items, next } = await siftedPage<Notification | undefined>({
        question: ["notifications", filter],
        page,
        read: isNone ? () => Promise.resolve([]) : await sourceOf(filter),
        isWanted: (notification) =>
          notification !== undefined &&
          (integration === "" || notification.integration === integration) &&
          (connectionId === "" || notification.matches.some(({ id }) => id === connectionId)) &&
          !(unmatched && notification.matches.length > 0) &&
          receivedAt(notification) < untilMs,
        isPast: (notification) => notification !== undefined && receivedAt(notification) < sinceMs,
        maxBytes,
        chunk: readAtOnce,
      });
      return { items: items.filter((one) => one !== undefined), next };
    },
  };
}

export const receivedAt = ({ receivedAt: at }: Notification): number => (at === undefined ? 0 : timestampMs(at));

/** Drops the body, which may be larger than a page. */
export const outlineOf = (notification: Notification): Notification => ({ ...notification, body: new Uint8Array() });
