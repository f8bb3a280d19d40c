import { type StoredChannel, StoredChannelSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { keysUntil, sortable } from "../stored/sortable-time.ts";
import { isWanted } from "./rules/slot.ts";

/** The collection of notification channels. */
export function createChannelCollections(store: Store) {
  return {
    channels: createRecords({
      store,
      name: "channel",
      schema: StoredChannelSchema,
      key: ({ channel }: StoredChannel) => [channel?.connection?.environment ?? "", channel?.id ?? ""],
      keyParts: 2,
      // What a channel's own key signs is believed.
      secret: ({ key }) => key !== "",
      complete: ({ channel }, revision) => {
        if (channel !== undefined) complete(channel, revision);
      },
      strip: (value) => (value.channel === undefined ? value : { ...value, channel: strip(value.channel) }),
      indexes: {
        // Finds the channels of a resource, of a connection, or of an integration.
        slot: (stored: StoredChannel) => [slotOf(stored)],
        // The current or future channel of a resource: creating the first one is conditional on there being none.
        wanted: (stored: StoredChannel) => (isWanted(stored) ? [slotOf(stored)] : []),
        due: ({ dueMs }: StoredChannel) => (dueMs > 0 ? [[sortable(dueMs)]] : []),
      },
      facets: { token: tokenOf, state: ({ channel }: StoredChannel) => Buffer.from(String(channel?.state ?? 0)) },
    }),
  } as const;
}

const slotOf = ({ channel }: StoredChannel): readonly string[] => {
  const { environment = "", integration = "", id = "" } = channel?.connection ?? {};
  return [environment, integration, id, channel?.resourceKind ?? "", channel?.resource ?? ""];
};

/** Replaces the token hash of a channel made by a script, whose token is not known. */
export const unknownToken = "-".repeat(64);

/**
 * The proof for a channel's notifications: the SHA-256 of its token in hex, followed by its integration, its connection,
 * the provider's ID of it, and its own key, if it has one, after a plus sign.
 */
function tokenOf({ tokenHash, channel, hasOwnKey, key }: StoredChannel): Uint8Array | undefined {
  const { integration = "", id = "" } = channel?.connection ?? {};
  const known = channel?.managed === false ? unknownToken : tokenHash;
  const own = hasOwnKey ? `+${key}` : "";
  return known === "" ? undefined : Buffer.from(`${known}${integration}\0${id}\0${channel?.providerId ?? ""}\0${own}`);
}

export type ChannelCollections = ReturnType<typeof createChannelCollections>;

/** Spaces of the proofs for channel notifications and of channel states. Keys: environment and ID. */
export const channelTokenSpace = "channel.token";

export const channelStateSpace = "channel.state";

/** Key of the last notification received over a channel. */
export const channelHeardKey = (environment: string, id: string) => keyOf("channel-heard", environment, id);

/** Key of what the scans remember about the notification rhythm of a channel. */
export const channelRhythmKey = (environment: string, id: string) => keyOf("channel-rhythm", environment, id);

/** Range of the secondary index of channels with a task due by then; each key ends in the channel's key. */
export const channelsDue = (nowMs: number) => keysUntil("channel.due", nowMs);
