import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Channel_State as State } from "../../gen/latchkey/v1/channel_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after, partsOf, under } from "../../store/keys.ts";
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

/** Limits the channels that are looked at. Reading many at once would delay requests. */
const mostStates = 20_000;
const statesAtOnce = 500;
const mostDue = 200;
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
  let { from, to } = under(channelStateSpace);
  for (let read = 0; read < mostStates; read += statesAtOnce) {
    const states = await store.list({ from, to, limit: statesAtOnce });
    for (const { key, value } of states) {
      if (Buffer.from(value).toString() === String(State.FAILED)) of(partsOf(key)[1] ?? "").failed += 1;
    }
    const last = states.at(-1);
    if (last === undefined || states.length < statesAtOnce) break;
    from = after(last.key);
  }
  // A renewal that failed is due again within the longest wait, and some more for chance.
  const due = await store.list({ ...channelsDue(nowMs + 2 * maxWaitMs), limit: mostDue });
  const found = await collections.channels.getMany(due.map(({ key }) => partsOf(key).slice(-2)));
  for (const stored of found) {
    if (stored === undefined || !isCurrent(stored.value) || stored.value.failures < leastFailures) continue;
    const { connection, renewAt } = channelOf(stored.value);
    if (renewAt !== undefined && timestampMs(renewAt) < nowMs) of(connection?.environment ?? "").runOut += 1;
  }
  return all;
}
