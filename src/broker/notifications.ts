import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../base/fault.ts";
import { namesNothing } from "../core/names.ts";
import type { StoredNotification } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Notification } from "../gen/latchkey/v1/webhook_pb.ts";
import type { PageRequest, Positioned } from "../store/records.ts";
import type { Collections } from "./collections.ts";
import { type Page, type PageOf, siftedPage } from "./page.ts";

/** What providers sent. */
export interface Notifications {
  get(at: { readonly environment: string; readonly id: string }): Promise<Notification>;
  /** The newest first. */
  list(filter: NotificationFilter, page: Page): Promise<PageOf<Notification>>;
}

export interface NotificationFilter {
  readonly environment: string;
  /** Empty: of any. */
  readonly integration: string;
  readonly connectionId: string;
  /** Only those that concern no connection. */
  readonly unmatched: boolean;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
}

export function createNotifications({ notifications, forwards }: Collections): Notifications {
  /** Through the forwards of a connection: what came for others is not waded through. */
  async function ofConnection(
    { environment, integration, connectionId }: NotificationFilter,
    request: Pick<PageRequest, "after" | "limit">,
  ): Promise<readonly Positioned<StoredNotification>[]> {
    const under = [environment, integration, connectionId];
    const found = await forwards.pageBy("connection", { under, reverse: true, ...request });
    const ids = found.map(({ value }) => value.notificationId);
    const stored = await notifications.getMany(ids.map((id) => [environment, id]));
    return found.flatMap(({ position }, i) => {
      const one = stored[i];
      // A second address makes a second forward of the same one.
      const isAgain = i > 0 && ids[i] === ids[i - 1];
      return one === undefined || isAgain ? [] : [{ ...one, position }];
    });
  }

  return {
    async get({ environment, id }) {
      const found = namesNothing(environment, id) ? undefined : await notifications.get(environment, id);
      if (found?.value.notification === undefined) {
        throw new Fault("not_found", `there is no notification "${id}", or not any more`);
      }
      return found.value.notification;
    },
    async list(filter, page) {
      const {
        environment,
        integration,
        connectionId,
        unmatched,
        sinceMs = 0,
        untilMs = Number.POSITIVE_INFINITY,
      } = filter;
      const isNone = namesNothing(environment, integration, connectionId);
      const isOfConnection = integration !== "" && connectionId !== "";
      const read = (request: Pick<PageRequest, "after" | "limit">) =>
        isNone
          ? Promise.resolve([])
          : isOfConnection
            ? ofConnection(filter, request)
            : notifications.page({ under: [environment], reverse: true, ...request });
      const { items, next } = await siftedPage<StoredNotification>({
        question: ["notifications", filter],
        page,
        read,
        isWanted: ({ notification }) =>
          notification !== undefined &&
          (integration === "" || notification.integration === integration) &&
          (connectionId === "" || notification.matches.some(({ id }) => id === connectionId)) &&
          !(unmatched && notification.matches.length > 0) &&
          receivedAt(notification) < untilMs,
        isPast: ({ notification }) => notification !== undefined && receivedAt(notification) < sinceMs,
      });
      return {
        items: items.flatMap(({ notification }) => (notification === undefined ? [] : outlineOf(notification))),
        next,
      };
    },
  };
}

export const receivedAt = ({ receivedAt: at }: Notification): number => (at === undefined ? 0 : timestampMs(at));

/** Without its body, which may be larger than a page. */
export const outlineOf = (notification: Notification): Notification => ({ ...notification, body: new Uint8Array() });
