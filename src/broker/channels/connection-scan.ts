import type { World } from "../../base/world.ts";
import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { newChannelId } from "./rules/channel-id.ts";
import { adoptChannel, renewOvertaken } from "./rules/foreign.ts";
import { applyChanges, hasNoChanges, mergeChanges } from "./rules/move.ts";
import { requestedChannel } from "./rules/request.ts";
import { defaultWatchRule, metadataChannel, ownedResource } from "./rules/rules.ts";
import { forbidsReplacement, isWanted, type WatchedResource } from "./rules/slot.ts";
import type { ChannelSlots } from "./slots.ts";

/**
 * Finds connections whose channels latchkey does not know or that lack one, some connections at a time. Channels that
 * scripts have made are known from the metadata of their connection. Where channels are automatic, a connection without
 * a channel is given one, unless a caller has stopped its channel.
 */
export interface ConnectionScan {
  /** Scans the next connections. */
  scanNext(): Promise<void>;
}

interface ConnectionScanOptions {
  readonly collections: Pick<
    SetupCollections & ConnectionCollections & ChannelCollections,
    "channels" | "connections" | "integrations"
  >;
  readonly slots: ChannelSlots;
  readonly providers: Providers;
  readonly world: World;
}

interface WatchableConnection {
  readonly connection: Connection;
  readonly isAutomatic: boolean;
}

const pageSize = 1_000;

export function createConnectionScan({ collections, slots, providers, world }: ConnectionScanOptions): ConnectionScan {
  const { channels, connections, integrations } = collections;
  let position: string | undefined;

  const channelIn = ({ provider, metadata = {} }: Connection) => {
    const rules = providers.find(provider).channel;
    return rules === undefined ? undefined : metadataChannel(metadata, rules);
  };

  function watchedIn({ ref, provider }: Connection): WatchedResource | undefined {
    const rule = defaultWatchRule(providers.find(provider));
    return ref === undefined || rule === undefined ? undefined : { ref, kind: rule.kind, resource: rule.resource };
  }

  async function nextConnections(): Promise<readonly WatchableConnection[]> {
    const all = await integrations.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
    const automatic = new Map(
      all
        .filter(({ value }) => defaultWatchRule(providers.find(value.provider)) !== undefined)
        .map(({ value }) => [`${value.environment}\0${value.key}`, value.channels?.automatic === true]),
    );
    if (automatic.size === 0) return [];
    const page = await connections.page({ under: [], after: position, limit: pageSize });
    position = page.length < pageSize ? undefined : page.at(-1)?.position;
    return page.flatMap(({ value }) => {
      const isAutomatic = automatic.get(`${value.ref?.environment}\0${value.ref?.integration}`);
      return isAutomatic === undefined ? [] : [{ connection: value, isAutomatic }];
    });
  }

  /** Stores the channels that the metadata names. Where channels are automatic, one of latchkey's replaces them. */
  async function adoptUnknown(found: readonly WatchableConnection[]): Promise<void> {
    const named = found.flatMap((one) => {
      const id = channelIn(one.connection)?.id;
      return id === undefined ? [] : [{ ...one, id }];
    });
    const known = await channels.getMany(named.map(({ connection, id }) => [connection.ref?.environment ?? "", id]));
    for (const [i, { connection, isAutomatic }] of named.entries()) {
      const watched = known[i] === undefined ? watchedIn(connection) : undefined;
      if (watched !== undefined) await adopt(watched, isAutomatic);
    }
  }

  async function adopt(watched: WatchedResource, isAutomatic: boolean): Promise<void> {
    await slots.move(
      watched,
      (slot, owner) => {
        const channel = owner?.connection === undefined ? undefined : channelIn(owner.connection);
        if (channel === undefined) return undefined;
        const moved = adoptChannel(slot, watched, channel, world.now());
        if (!isAutomatic || hasNoChanges(moved)) return moved;
        return mergeChanges(moved, renewOvertaken(applyChanges(slot, moved), world.now()));
      },
      { leavesMetadata: true },
    );
  }

  async function ensureChannel(connection: Connection): Promise<void> {
    const named = watchedIn(connection);
    if (named === undefined) return;
    const watched = ownedResource(named, providers.find(connection.provider));
    const isSettled = (one: StoredChannel) => isWanted(one) || forbidsReplacement(one);
    await slots.move(
      watched,
      (slot, owner) => {
        if (owner === undefined || slot.some(isSettled)) return undefined;
        const nowMs = world.now();
        const requested = requestedChannel({
          ...watched,
          id: newChannelId(),
          nowMs,
          askedLifeMs: 0,
          isDefault: true,
          kept: true,
        });
        return { put: [requested], removed: [], notices: [] };
      },
      { isFirst: true },
    );
  }

  return {
    async scanNext() {
      const found = await nextConnections();
      await adoptUnknown(found);
      for (const { connection, isAutomatic } of found) {
        if (isAutomatic && connection.state !== Connection_State.REAUTHORIZATION_REQUIRED) {
          await ensureChannel(connection);
        }
      }
    },
  };
}
