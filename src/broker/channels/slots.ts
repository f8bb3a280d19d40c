import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { checkMetadata } from "../../core/connection-rules.ts";
import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Channel_State } from "../../gen/latchkey/v1/channel_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Condition, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Logs } from "../audit/logs.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Events } from "../deliveries/events.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { type ChannelCollections, channelHeardKey, channelRhythmKey } from "./channel-collections.ts";
import { createChannelNotices } from "./channel-notices.ts";
import { type ChannelChanges, hasNoChanges } from "./rules/move.ts";
import { metadataWith, metadataWithout, metadataWithPosition } from "./rules/rules.ts";
import {
  channelOf,
  idOf,
  isCurrent,
  isOfIntegration,
  isPending,
  resourceOf,
  type Slot,
  stateOf,
  type WatchedResource,
} from "./rules/slot.ts";

/** Changes channels: reads a slot, decides, commits, and repeats after a conflict. */
export interface ChannelSlots {
  read(watched: WatchedResource): Promise<Slot>;
  /** Reads the channels of all resources of a connection. */
  readAll(ref: WatchedResource["ref"]): Promise<Slot>;
  /** Returns the committed change; undefined: there was nothing to do. */
  move(watched: WatchedResource, decide: Decide, options?: MoveOptions): Promise<ChannelChanges | undefined>;
  /** The changes for a new channel, for the caller's own commit. */
  added(channel: StoredChannel): Change[];
  /** The changes of a move, for the caller's own commit; sends no notices. */
  changes(slot: Slot, moved: ChannelChanges): Change[];
}

type Decide = (slot: Slot, owner: ChannelOwner | undefined) => ChannelChanges | undefined;

/** Whose channels a slot holds: a connection, or an integration for all its connections. */
export interface ChannelOwner {
  /** Name of the provider. */
  readonly provider: string;
  /** Undefined: the channels are the integration's. */
  readonly connection: Connection | undefined;
}

export interface MoveOptions {
  /** Leaves the connection's metadata about channels unchanged. */
  readonly leavesMetadata?: boolean;
  /** Additional changes in the same commit, such as an audit log entry. */
  readonly alongside?: (moved: ChannelChanges) => readonly Change[];
  /** Commits only if the slot has no current or future channel. */
  readonly isFirst?: boolean;
  /** Commits only while this process has the partition. */
  readonly fence?: Condition | undefined;
}

interface SlotsOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "integrations"> & ConnectionCollections & ChannelCollections;
  readonly providers: Providers;
  readonly events: Events;
  readonly logs: Logs;
  /** Empty: not known here yet. */
  readonly environmentIdOf: (environment: string) => string;
  readonly world: World;
}

const maxOfSlot = 1_000;

export const slotKeyParts = ({
  ref: { environment, integration, id },
  kind,
  resource,
}: WatchedResource): readonly string[] => [...[environment, integration, id], ...[kind, resource]];

export function createChannelSlots(options: SlotsOptions): ChannelSlots {
  const { store, collections, providers, events, logs, environmentIdOf, world } = options;
  const { channels, connections, integrations } = collections;
  const notices = createChannelNotices({ providers, events, logs, world });

  async function readUnder(under: readonly string[]): Promise<readonly StoredRecordOf<StoredChannel>[]> {
    return channels.pageBy("slot", { under, limit: maxOfSlot });
  }

  function changesOf(found: readonly StoredRecordOf<StoredChannel>[], { put, removed }: ChannelChanges): Change[] {
    const before = new Map(found.map((one) => [idOf(one.value), one]));
    return [
      ...put.flatMap((after) => channels.change({ before: before.get(idOf(after)), after: ofNow(after) })),
      // A channel added and removed within the move was never stored.
      ...removed.flatMap((one) => [
        ...channels.change({ before: before.get(idOf(one)), after: undefined }),
        { key: channelHeardKey(resourceOf(one).ref.environment, idOf(one)), value: undefined },
        { key: channelRhythmKey(resourceOf(one).ref.environment, idOf(one)), value: undefined },
      ]),
    ].filter(({ value, expect }) => value !== undefined || expect !== 0);
  }

  /** Sets the environment's ID, in case another environment gets its name later. */
  const ofNow = (one: StoredChannel): StoredChannel =>
    one.environmentId !== "" ? one : { ...one, environmentId: environmentIdOf(resourceOf(one).ref.environment) };

  /** Updates the metadata about channels in the connection. */
  function metadataChanges(slot: Slot, before: StoredRecordOf<Connection>, moved: ChannelChanges): Change[] {
    const { value } = before;
    const rules = providers.find(value.provider).channel;
    if (rules === undefined) return [];
    const wasMaking = (id: string) => slot.some((one) => idOf(one) === id && isPending(one));
    const made = moved.put.find((one) => stateOf(one) === Channel_State.ACTIVE && wasMaking(idOf(one)));
    let { metadata = {} } = value;
    if (made !== undefined) {
      metadata = metadataWith(metadata, rules, { channel: channelOf(made), isDefault: made.isDefault });
      // A successor goes on where its predecessor was, and syncs have moved on since.
      if (!slot.some(isCurrent)) metadata = metadataWithPosition(metadata, rules, made);
    } else {
      for (const { id, state } of moved.put.map(channelOf)) {
        const isOver = state === Channel_State.STOPPED || state === Channel_State.EXPIRED;
        if (isOver) metadata = metadataWithout(metadata, rules, id);
      }
    }
    const isSame = JSON.stringify(metadata) === JSON.stringify(value.metadata ?? {});
    // Metadata over the limit is not written: notifications find the connection in other ways.
    if (isSame || checkMetadata(metadata).length > 0) return [];
    return connections.change({ before, after: { ...value, metadata, updatedAt: timestampFromMs(world.now()) } });
  }

  return {
    read: async (watched) => (await readUnder(slotKeyParts(watched))).map(({ value }) => value),
    readAll: async ({ environment, integration, id }) =>
      (await readUnder([environment, integration, id])).map(({ value }) => value),
    added: (after) => channels.change({ before: undefined, after }),
    changes: (slot, moved) =>
      changesOf(
        slot.map((value) => ({ value, revision: Number(channelOf(value).revision), bytes: 0 })),
        moved,
      ),
    async move(watched, decide, { leavesMetadata = false, alongside, isFirst = false, fence } = {}) {
      const { environment, integration, id } = watched.ref;
      const step = async () => {
        const [found, connection, own] = await Promise.all([
          readUnder(slotKeyParts(watched)),
          isOfIntegration(watched) ? undefined : connections.get(environment, integration, id),
          isOfIntegration(watched) ? integrations.get(environment, integration) : undefined,
        ]);
        const slot = found.map(({ value }) => value);
        const provider = (connection ?? own)?.value.provider;
        const owner = provider === undefined ? undefined : { provider, connection: connection?.value };
        const moved = decide(slot, owner);
        if (moved === undefined || hasNoChanges(moved)) return { changes: [], result: undefined };
        const conditions: Condition[] = isFirst ? [channels.none(slotKeyParts(watched), "wanted")] : [];
        const changes = [
          ...changesOf(found, moved),
          ...(leavesMetadata || connection === undefined ? [] : metadataChanges(slot, connection, moved)),
          ...notices.changes(moved.notices, owner),
          ...(alongside?.(moved) ?? []),
        ];
        return { changes, conditions, result: moved };
      };
      const { result } = await transact(store, step, fence);
      if (result !== undefined) notices.report(result.notices);
      return result;
    },
  };
}
