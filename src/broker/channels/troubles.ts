import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Channel_State as State } from "../../gen/latchkey/v1/channel_pb.ts";
import type { Store } from "../../store/contract.ts";
import { partsOf, under } from "../../store/keys.ts";
import { type ChannelCollections, channelStateSpace, channelsDue } from "./channel-collections.ts";
import { channelOf, isCurrent } from "./rules/slot.ts";
import { maxWaitMs } from "./rules/times.ts";

/** Numbers of channels that need attention, as far as one read shows. */
export interface ChannelTroubles {
  /** Refused by the provider. */
  readonly failed: number;
  /** Their renewal failed, and is tried again. */
  readonly runOut: number;
}

interface TroublesOptions {
  readonly store: Store;
  readonly collections: ChannelCollections;
  readonly now: () => number;
}

/** Limits the channels that are looked at. */
const mostStates = 20_000;
const mostDue = 500;
/** A single failure is often over with the next attempt. */
const leastFailures = 2;

/** Returns the troubles of all environments that have some. */
export async function channelTroubles(options: TroublesOptions): Promise<ReadonlyMap<string, ChannelTroubles>> {
  const { store, collections, now } = options;
  const nowMs = now();
  const all = new Map<string, { failed: number; runOut: number }>();
  const of = (environment: string) => {
    const found = all.get(environment) ?? { failed: 0, runOut: 0 };
    all.set(environment, found);
    return found;
  };
  const states = await store.list({ ...under(channelStateSpace), limit: mostStates });
  for (const { key, value } of states) {
    if (Buffer.from(value).toString() === String(State.FAILED)) of(partsOf(key)[1] ?? "").failed += 1;
  }
  // A renewal that failed is due again within the longest wait.
  const due = await store.list({ ...channelsDue(nowMs + maxWaitMs), limit: mostDue });
  const found = await collections.channels.getMany(due.map(({ key }) => partsOf(key).slice(-2)));
  for (const stored of found) {
    if (stored === undefined || !isCurrent(stored.value) || stored.value.failures < leastFailures) continue;
    const { connection, renewAt } = channelOf(stored.value);
    if (renewAt !== undefined && timestampMs(renewAt) < nowMs) of(connection?.environment ?? "").runOut += 1;
  }
  return all;
}
