import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { ChannelObservation } from "./observations.ts";
import { disownChannel } from "./rules/foreign.ts";
import { metadataChannel } from "./rules/rules.ts";
import { idOf, isForeign, resourceOf } from "./rules/slot.ts";
import type { ChannelSlots } from "./slots.ts";

/** Finds stored channels whose environment, or whose mention in the metadata, is gone. */
export interface LeftoverChannels {
  /**
   * Finds channels of an environment that was deleted, and perhaps recreated since. Reads environments after the
   * channels, so no older.
   */
  orphansIn(all: readonly ChannelObservation[]): Promise<readonly ChannelObservation[]>;
  /** Removes scripts' channels that the metadata of their connection no longer names. */
  disown(all: readonly ChannelObservation[]): Promise<void>;
}

interface LeftoverChannelsOptions {
  readonly collections: Pick<SetupCollections & ConnectionCollections, "connections" | "environments">;
  readonly slots: ChannelSlots;
}

export const createLeftoverChannels = ({ collections, slots }: LeftoverChannelsOptions): LeftoverChannels => ({
  async orphansIn(all) {
    const names = [...new Set(all.map(({ stored }) => resourceOf(stored).ref.environment))];
    const found = await collections.environments.getMany(names.map((name) => [name]));
    const ids = new Map(names.map((name, i) => [name, found[i]?.value.id]));
    return all.filter(({ stored }) => {
      const id = ids.get(resourceOf(stored).ref.environment);
      return id === undefined || (stored.environmentId !== "" && stored.environmentId !== id);
    });
  },
  async disown(all) {
    const foreign = all.filter(({ stored }) => isForeign(stored));
    const refs = foreign.map(({ stored }) => resourceOf(stored).ref);
    const found = await collections.connections.getMany(
      refs.map(({ environment, integration, id }) => [environment, integration, id]),
    );
    for (const [i, { stored, rules }] of foreign.entries()) {
      const metadata = found[i]?.value.metadata ?? {};
      const named = rules?.channel === undefined ? undefined : metadataChannel(metadata, rules.channel);
      if (named?.id === idOf(stored)) continue;
      await slots.move(resourceOf(stored), (slot) => disownChannel(slot, idOf(stored)), { leavesMetadata: true });
    }
  },
});
