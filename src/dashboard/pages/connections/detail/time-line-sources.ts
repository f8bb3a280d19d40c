import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import type { ConnectionRef } from "../../../../gen/latchkey/v1/connection_pb.ts";
import type { ListPage } from "../../../data/pager.ts";
import { channels, logs, syncs, traffic, webhooks } from "../../../state/clients.ts";
import { may } from "../../../state/session.ts";
import {
  eventOfChange,
  eventOfLog,
  eventOfNotification,
  eventOfRun,
  eventsOfChannel,
  eventsOfRequests,
  type TimeLineEvent,
} from "./time-line-events.ts";

/** Reads a page of events, newest first. */
export type EventSource = (pageToken: string, signal: AbortSignal) => Promise<ListPage<TimeLineEvent>>;

const pageSize = 40;

export function sourcesOf({ environment, integration, id: connectionId }: ConnectionRef): readonly EventSource[] {
  const about = { environment, integration, connectionId, pageSize };
  const target = `${integration}/${connectionId}`;
  const sources: EventSource[] = [
    async (pageToken, signal) => {
      const page = await logs.listLogs({ ...about, pageToken }, { signal });
      // A script's log belongs to its run.
      const own = page.logs.filter(({ operation }) => !operation.startsWith("script"));
      return { items: own.map(eventOfLog), nextPageToken: page.nextPageToken };
    },
    async (pageToken, signal) => {
      const page = await webhooks.listNotifications({ ...about, pageToken }, { signal });
      return { items: page.notifications.map(eventOfNotification), nextPageToken: page.nextPageToken };
    },
    async (pageToken, signal) => {
      const page = await syncs.listRuns({ ...about, pageToken }, { signal });
      return { items: page.runs.map(eventOfRun), nextPageToken: page.nextPageToken };
    },
    // A replica remembers its last 1,000 requests.
    async (_, signal) => {
      const filter = { integration, connectionId };
      const { requests } = await traffic.listRequests({ environment, filter, pageSize: 200 }, { signal });
      return { items: eventsOfRequests(requests), nextPageToken: "" };
    },
    // Channels are few, and not in the order of time.
    async (_, signal) => {
      const page = await channels.listChannels({ ...about, pageSize: 200 }, { signal });
      return { items: page.channels.flatMap(eventsOfChannel), nextPageToken: "" };
    },
  ];
  if (may(Scope.ADMIN)) {
    sources.push(async (pageToken, signal) => {
      const page = await logs.listAuditEvents({ environment, target, pageSize, pageToken }, { signal });
      return { items: page.events.map(eventOfChange), nextPageToken: page.nextPageToken };
    });
  }
  return sources;
}
