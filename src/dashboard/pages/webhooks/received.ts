import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import type { Forward, Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { msOf } from "../../data/format.ts";
import { type Pager, usePager } from "../../data/pager.ts";
import { useSince } from "../../data/since.ts";
import { useWatch, type WatchState } from "../../data/watch.ts";
import { webhooks } from "../../state/clients.ts";

export interface ReceivedFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly unmatched: boolean;
  readonly kind: string;
  readonly text: string;
  /** Such as `24h`; empty for any age. */
  readonly age: string;
}

/** Received webhooks with their deliveries; new ones are added while the person looks at the top of the list. */
export interface ReceivedList {
  readonly pager: Pager<Notification>;
  readonly deliveries: ReadonlyMap<string, readonly Forward[]>;
  readonly watchState: WatchState;
  /** Number of new webhooks that are not shown yet. */
  readonly waiting: number;
  /** The list was not live for a while: there may be more. */
  readonly hasMissed: boolean;
  showWaiting(): void;
}

const pageSize = 50;
const mostWaiting = 200;
/** Deliveries are created a moment after their webhook. */
const createdWithinMs = 2_000;
/** A person who has scrolled this far reads something that must not move. */
const readingFrom = 240;

type DeliveryMap = ReadonlyMap<string, readonly Forward[]>;

export function useReceived(filter: ReceivedFilter, isLive: boolean): ReceivedList {
  const { environment, integration, age } = filter;
  const since = useSince(age);
  const deliveries = useSignal<DeliveryMap>(new Map());
  const waiting = useSignal<readonly Notification[]>([]);
  const hasMissed = useSignal(false);
  const request = {
    ...fieldsOf(filter),
    ...(since !== undefined && { since }),
  };

  const pager = usePager<Notification>(
    async (pageToken, signal) => {
      const page = await webhooks.listNotifications({ ...request, pageToken, pageSize }, { signal });
      if (pageToken === "") {
        waiting.value = [];
        hasMissed.value = false;
      }
      void readDeliveries(environment, integration, page.notifications, signal).then(
        (found) => (deliveries.value = merged(deliveries.peek(), found)),
        // The list is of use without them.
        () => undefined,
      );
      return { items: page.notifications, nextPageToken: page.nextPageToken };
    },
    Object.values({ ...filter, since }),
  );

  function take(notification: Notification): void {
    if (!fits(notification, filter)) return;
    if (window.scrollY > readingFrom) {
      if (waiting.peek().length < mostWaiting) waiting.value = [notification, ...waiting.peek()];
    } else pager.edit((items) => withFirst(items, [notification]));
  }

  const watchState = useWatch(
    (signal) => webhooks.watchNotifications({ environment, integration }, { signal }),
    ({ event }) => {
      if (event.case === "notification") take(event.value);
      if (event.case === "forward") deliveries.value = merged(deliveries.peek(), [event.value]);
    },
    {
      isOn: isLive,
      dependencies: [environment, integration],
      onReopen() {
        if (window.scrollY > readingFrom) hasMissed.value = true;
        else pager.reload();
      },
    },
  );

  return {
    pager,
    deliveries: deliveries.value,
    watchState,
    waiting: waiting.value.length,
    hasMissed: hasMissed.value,
    showWaiting() {
      window.scrollTo(0, 0);
      if (hasMissed.peek()) return pager.reload();
      pager.edit((items) => withFirst(items, waiting.peek()));
      waiting.value = [];
    },
  };
}

const fieldsOf = ({ environment, integration, connectionId, unmatched, kind, text }: ReceivedFilter) => ({
  environment,
  integration,
  connectionId: integration === "" ? "" : connectionId,
  unmatched,
  kind,
  text,
});

/** A text is searched by Latchkey only: a live list shows what arrives after the next load. */
function fits(notification: Notification, { connectionId, unmatched, kind, text }: ReceivedFilter): boolean {
  const { matches, kinds } = notification;
  return (
    text === "" &&
    (!unmatched || matches.length === 0) &&
    (kind === "" || kinds.includes(kind)) &&
    (connectionId === "" || matches.some(({ id }) => id === connectionId))
  );
}

function withFirst(items: readonly Notification[], first: readonly Notification[]): readonly Notification[] {
  const ids = new Set(items.map(({ id }) => id));
  return [...first.filter(({ id }) => !ids.has(id)), ...items];
}

/** Reads the deliveries of a page of webhooks by their time of creation. */
async function readDeliveries(
  environment: string,
  integration: string,
  shown: readonly Notification[],
  signal: AbortSignal,
): Promise<readonly Forward[]> {
  const times = shown.flatMap(({ receivedAt }) => msOf(receivedAt) ?? []);
  if (times.length === 0) return [];
  const filter = {
    integration,
    since: timestampFromMs(Math.min(...times)),
    until: timestampFromMs(Math.max(...times) + createdWithinMs),
  };
  const { forwards } = await webhooks.listForwards({ environment, filter, pageSize: 1_000 }, { signal });
  return forwards;
}

const mostRemembered = 5_000;

/** Adds deliveries to those known, by webhook. */
function merged(known: DeliveryMap, found: readonly Forward[]): DeliveryMap {
  const all = new Map(known.size > mostRemembered ? [] : known);
  for (const forward of found) {
    if (forward.notificationId === "") continue;
    const others = (all.get(forward.notificationId) ?? []).filter(({ id }) => id !== forward.id);
    all.set(forward.notificationId, [...others, forward]);
  }
  return all;
}
