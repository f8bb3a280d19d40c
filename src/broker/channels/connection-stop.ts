import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../../base/world.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Connections } from "../connections/connections.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { ChannelCalls } from "./calls.ts";
import { adoptChannel } from "./rules/foreign.ts";
import { applyChanges, mergeChanges, noChanges } from "./rules/move.ts";
import { defaultWatchRule, metadataChannel } from "./rules/rules.ts";
import { idOf, isManaged, isOver, resourceOf, type Slot, type WatchedResource } from "./rules/slot.ts";
import { requestStop } from "./rules/stopping.ts";
import type { ChannelSlots } from "./slots.ts";

/** Stops all channels of a connection, as far as possible in a short time. Never rejects. */
export type StopChannelsOf = (ref: ConnectionRef) => Promise<void>;

interface ConnectionStopOptions {
  readonly slots: ChannelSlots;
  readonly calls: ChannelCalls;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly world: World;
}

/** Limits how long a deletion waits for its channels. */
const stopAllWithinMs = 10_000;

export function createConnectionStop(options: ConnectionStopOptions): StopChannelsOf {
  const { slots, calls, connections, integrations, providers, world } = options;

  /** Returns the script's channel that the metadata names, with the resource that it watches. */
  function foreignOf({ ref, metadata = {}, provider }: Connection) {
    const description = providers.find(provider);
    const { channel: rules } = description;
    const rule = defaultWatchRule(description);
    const channel = rules === undefined ? undefined : metadataChannel(metadata, rules);
    if (ref === undefined || rule === undefined || channel === undefined) return undefined;
    return { channel, watched: { ref, kind: rule.kind, resource: rule.resource } };
  }

  async function stopAll(ref: ConnectionRef, signal: AbortSignal): Promise<void> {
    const { value: connection } = await connections.get(ref);
    const { value: integration } = await integrations.get({ environment: ref.environment, key: ref.integration });
    const isAutomatic = integration.channels?.automatic === true;
    const stoppable = (await slots.readAll(ref)).filter((one) => !isOver(one) && (isAutomatic || isManaged(one)));
    const resources = new Map(stoppable.map((one) => [nameOf(resourceOf(one)), resourceOf(one)]));
    // A channel that only the metadata names, if the integration manages channels automatically.
    const foreign = isAutomatic ? foreignOf(connection) : undefined;
    if (foreign !== undefined) resources.set(nameOf(foreign.watched), foreign.watched);

    async function stopAt(watched: WatchedResource): Promise<void> {
      const nowMs = world.now();
      const isForeign = foreign !== undefined && nameOf(foreign.watched) === nameOf(watched);
      const moved = await slots.move(
        watched,
        (slot) => {
          const adoption = isForeign ? adoptChannel(slot, watched, foreign.channel, nowMs) : noChanges;
          const after = applyChanges(slot, adoption);
          return mergeChanges(adoption, allStopped(isAutomatic ? after : after.filter(isManaged), nowMs));
        },
        // Leaves the connection unchanged: its deletion may depend on its revision.
        { leavesMetadata: true },
      );
      await calls.stopClaimed(watched, moved, { nowMs, signal });
    }
    await Promise.all([...resources.values()].map(stopAt));
  }

  return async (ref) => {
    const late = AbortSignal.timeout(stopAllWithinMs);
    const all = stopAll(ref, late).catch((err: unknown) => {
      const { environment, integration, id: connection } = ref;
      const fields = { environment, integration, connection, err };
      world.log.error("could not stop the channels of a deleted connection; they remain until they expire", fields);
    });
    await Promise.race([all, sleep(stopAllWithinMs, undefined, { ref: false })]);
  };
}

const nameOf = ({ kind, resource }: WatchedResource): string => JSON.stringify([kind, resource]);

function allStopped(slot: Slot, nowMs: number) {
  const put = slot.filter((one) => !isOver(one)).flatMap((one) => requestStop(slot, idOf(one), nowMs).put);
  // Stopping a channel also stops its replacement in creation, which is in the slot as well: remove duplicates.
  return { put: [...new Map(put.map((one) => [idOf(one), one])).values()], removed: [], notices: [] };
}
