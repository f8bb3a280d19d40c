import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Channel, Channel_State as State } from "../../../gen/latchkey/v1/channel_pb.ts";
import { channelOf, isOver } from "./slot.ts";

/** The state after each event. An event not in the table is an error. */
const table: Readonly<Record<State, Partial<Readonly<Record<ChannelTransition, State>>>>> = {
  [State.UNSPECIFIED]: {},
  [State.CREATING]: {
    asked: State.CREATING,
    /** The provider has taken the request, and will confirm it. */
    answered: State.CREATING,
    put_off: State.CREATING,
    made: State.ACTIVE,
    refused: State.FAILED,
    /** The response was lost, or the process that waited for it: the channel may exist. */
    unheard: State.STOPPING,
    stop_asked: State.STOPPING,
    forgone: State.STOPPED,
    connection_gone: State.STOPPING,
  },
  [State.ACTIVE]: {
    renewal_begun: State.RENEWING,
    put_off: State.ACTIVE,
    renewed: State.ACTIVE,
    replaced: State.STOPPING,
    stop_asked: State.STOPPING,
    expired: State.EXPIRED,
    ended: State.FAILED,
    connection_gone: State.STOPPING,
  },
  [State.RENEWING]: {
    put_off: State.ACTIVE,
    answered: State.RENEWING,
    renewed: State.ACTIVE,
    ended: State.FAILED,
    replaced: State.STOPPING,
    stop_asked: State.STOPPING,
    expired: State.EXPIRED,
    connection_gone: State.STOPPING,
  },
  [State.STOPPING]: {
    made: State.STOPPING,
    /** Its creation had no response, and the provider lists it. */
    adopted: State.CREATING,
    stopped: State.STOPPED,
    put_off: State.STOPPING,
    stop_asked: State.STOPPING,
    expired: State.EXPIRED,
    connection_gone: State.STOPPING,
  },
  // A request was paused for longer than its wait, and its late response says that the channel exists.
  [State.STOPPED]: { made: State.STOPPING },
  [State.EXPIRED]: { made: State.STOPPING },
  [State.FAILED]: { made: State.STOPPING },
};

type ChannelTransition =
  | "asked"
  | "answered"
  | "renewed"
  | "adopted"
  | "ended"
  | "put_off"
  | "made"
  | "refused"
  | "unheard"
  | "renewal_begun"
  | "replaced"
  | "stop_asked"
  | "forgone"
  | "stopped"
  | "expired"
  | "connection_gone";

/** Finished channels are kept for a while: callers may ask for them, and late notifications carry their token. */
export const keptMs = 7 * 86_400_000;

type Patch = Partial<Omit<StoredChannel, "channel" | "$typeName" | "$unknown">>;
interface ChannelStep extends Patch {
  readonly nowMs: number;
  readonly shown?: Partial<Omit<Channel, "$typeName" | "$unknown">>;
}

/** A channel after an event, with what else the event changes. */
export function transition(
  stored: StoredChannel,
  event: ChannelTransition,
  { nowMs, shown: change = {}, ...patch }: ChannelStep,
): StoredChannel {
  const before = channelOf(stored);
  const state = table[before.state]?.[event];
  if (state === undefined) throw new Error(`a channel in state ${before.state} has no transition ${event}`);
  const channel: Channel = { ...before, ...change, state, updatedAt: timestampFromMs(nowMs) };
  const after = { ...stored, ...patch, channel };
  // A finished channel is due once more, to be removed.
  return isOver(after) ? { ...after, dueMs: nowMs + keptMs } : after;
}
