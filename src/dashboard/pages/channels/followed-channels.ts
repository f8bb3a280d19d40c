import type { Channel } from "../../../gen/latchkey/v1/channel_pb.ts";
import { type Pager, usePager } from "../../data/pager.ts";
import { useWatch, type WatchState } from "../../data/watch.ts";
import { channels } from "../../state/clients.ts";
import { statesChosen } from "./channel-lives.ts";

interface ShownChannels {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  /** A name of `stateChoices`; empty for all. */
  readonly state: string;
}

/** The channels that fit the filters, followed as they change. */
export function useChannels(filter: ShownChannels, isLive: boolean): { pager: Pager<Channel>; watchState: WatchState } {
  const { environment, integration, connectionId, state } = filter;
  const states = [...statesChosen(state)];
  const pager = usePager<Channel>(
    async (pageToken, signal) => {
      // A connection is one of an integration.
      const ofConnection = integration === "" ? "" : connectionId;
      const request = { environment, integration, connectionId: ofConnection, states, pageToken, pageSize: 200 };
      const page = await channels.listChannels(request, { signal });
      return { items: page.channels, nextPageToken: page.nextPageToken };
    },
    [environment, integration, connectionId, state],
  );

  const fits = ({ connection, state: now }: Channel): boolean =>
    (integration === "" || connection?.integration === integration) &&
    (connectionId === "" || connection?.id === connectionId) &&
    (states.length === 0 || states.includes(now));

  const isLoaded = pager.items !== undefined;
  const watchState = useWatch(
    (signal) => {
      const revisions = (pager.items ?? []).map(({ revision }) => revision);
      const fromRevision = revisions.reduce((last, one) => (one > last ? one : last), 0n);
      return channels.watchChannels({ environment, fromRevision }, { signal });
    },
    ({ event }) => {
      if (event.case === "put") {
        const { value } = event;
        pager.edit((items) => withChange(items, value, fits(value)));
      } else if (event.case === "deleted") {
        const { id } = event.value;
        pager.edit((items) => items.filter((one) => one.id !== id));
      }
    },
    { isOn: isLive && isLoaded, dependencies: [environment, integration, connectionId, state] },
  );
  return { pager, watchState };
}

/** A stream leaves out what comes with each message: that is kept as it was read. */
function withChange(items: readonly Channel[], changed: Channel, isWanted: boolean): readonly Channel[] {
  const before = items.find(({ id }) => id === changed.id);
  if (before === undefined) return isWanted ? [...items, changed] : items;
  const { lastMessageNumber, lastNotifiedAt, silent, longestPause } = before;
  const after: Channel = {
    ...changed,
    lastMessageNumber,
    silent,
    ...(lastNotifiedAt !== undefined && { lastNotifiedAt }),
    ...(longestPause !== undefined && { longestPause }),
  };
  return items.map((one) => (one.id === changed.id ? after : one));
}
