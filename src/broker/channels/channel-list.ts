import { fromBinary } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { ChannelHeardSchema, ChannelRhythmSchema, type StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Channel, Channel_State as State } from "../../gen/latchkey/v1/channel_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type PageOf, type PageOptions, siftedPage } from "../stored/paging.ts";
import { type ChannelCollections, channelHeardKey, channelRhythmKey } from "./channel-collections.ts";
import { channelOf, idOf, isCurrent, resourceOf, stateOf } from "./rules/slot.ts";

/** Channels as callers see them. */
export interface ChannelList {
  /** Throws `not_found`. */
  find(at: ChannelAt): Promise<StoredRecordOf<StoredChannel>>;
  get(at: ChannelAt): Promise<Channel>;
  list(filter: ChannelFilter, page: PageOptions): Promise<PageOf<Channel>>;
}

export interface ChannelAt {
  readonly environment: string;
  readonly id: string;
}

export interface ChannelFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly states: readonly State[];
}

interface ChannelListServices {
  readonly store: Store;
  readonly collections: ChannelCollections;
  readonly destinations: Pick<Destinations, "isCurrent">;
}

export function createChannelList({ store, collections, destinations }: ChannelListServices): ChannelList {
  const { channels } = collections;

  /** False for a channel of a deleted environment that had the same name. */
  const isOfNow = (stored: StoredChannel): boolean =>
    destinations.isCurrent({ environment: resourceOf(stored).ref.environment, environmentId: stored.environmentId });

  async function find({ environment, id }: ChannelAt): Promise<StoredRecordOf<StoredChannel>> {
    const found = namesNothing(environment, id) ? undefined : await channels.get(environment, id);
    if (found === undefined || !isOfNow(found.value)) throw new Fault("not_found", `channel "${id}" does not exist`);
    return found;
  }

  /** Adds the last notification of each channel and its rhythm, which are stored separately. */
  async function withLastNotified(found: readonly StoredChannel[]): Promise<Channel[]> {
    if (found.length === 0) return [];
    const keysOf = (key: typeof channelHeardKey) => found.map((one) => key(resourceOf(one).ref.environment, idOf(one)));
    const [last, rhythms] = await Promise.all([
      store.getMany(keysOf(channelHeardKey)),
      store.getMany(keysOf(channelRhythmKey)),
    ]);
    return found.map((one, i) => {
      const channel = { ...channelOf(one) };
      const [heard, rhythm] = [last[i], rhythms[i]];
      if (heard !== undefined) {
        const { number, at } = fromBinary(ChannelHeardSchema, heard.value);
        channel.lastMessageNumber = number;
        if (at !== undefined) channel.lastNotifiedAt = at;
      }
      if (rhythm !== undefined) {
        const { toldSilent, pauseMs } = fromBinary(ChannelRhythmSchema, rhythm.value);
        channel.silent = toldSilent && isCurrent(one);
        if (pauseMs > 0) channel.longestPause = durationFromMs(Math.round(pauseMs));
      }
      return channel;
    });
  }

  return {
    find,
    async get(at) {
      const [channel] = await withLastNotified([(await find(at)).value]);
      if (channel === undefined) throw new Error("no channel is shown for the one that was found");
      return channel;
    },
    async list({ environment, integration, connectionId, states }, page) {
      const isNone = namesNothing(environment, integration, connectionId);
      const under = [
        environment,
        ...(integration === "" ? [] : [integration, ...(connectionId === "" ? [] : [connectionId])]),
      ];
      const { items, next } = await siftedPage<StoredChannel>({
        question: ["channels", environment, integration, connectionId, [...states].sort()],
        page,
        read: (request) => (isNone ? Promise.resolve([]) : channels.pageBy("slot", { under, ...request })),
        isWanted: (stored) => isOfNow(stored) && (states.length === 0 || states.includes(stateOf(stored))),
        isPast: () => false,
      });
      return { items: await withLastNotified(items), next };
    },
  };
}
