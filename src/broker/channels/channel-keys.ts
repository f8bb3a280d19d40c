import type { World } from "../../base/world.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import type { ChannelChanges } from "./rules/move.ts";
import { findChannel, isBeingCreated, resourceOf } from "./rules/slot.ts";
import type { ChannelSlots } from "./slots.ts";
import { storeOutcome } from "./store-outcome.ts";
import type { ChannelOfIntegration, ChannelTokens } from "./tokens.ts";

/** Keys of single channels, which prove their notifications. A key is part of the record of its channel. */
export interface ChannelKeys {
  /**
   * Returns the channel's key, from memory. Empty: it has a key that is not known yet, so nothing can be proven.
   * Undefined: not a channel of ours with a key of its own.
   */
  keyOf(channel: ChannelOfIntegration): string | undefined;
  /**
   * Stores the key that a handshake tells. False unless Latchkey is creating this channel now and it has no other key.
   * Waits for no request: the one that creates the channel is still open.
   */
  learn(channel: ChannelOfIntegration, key: string): Promise<boolean>;
}

interface ChannelKeysOptions {
  readonly collections: Pick<ChannelCollections, "channels">;
  readonly slots: Pick<ChannelSlots, "move">;
  readonly tokens: Pick<ChannelTokens, "keyOf">;
  readonly world: World;
}

/** Longer than any key. */
const maxLength = 1_024;

export const createChannelKeys = ({ collections, slots, tokens, world }: ChannelKeysOptions): ChannelKeys => ({
  keyOf: (channel) => tokens.keyOf(channel),
  async learn({ environment, integration, id }, key) {
    if (key === "" || key.length > maxLength || !/^[\x21-\x7e]+$/.test(key)) return false;
    const stored = await collections.channels.get(environment, id);
    const watched = stored === undefined ? undefined : resourceOf(stored.value);
    if (watched === undefined || watched.ref.integration !== integration) return false;
    let isLearned = false;
    await storeOutcome(world.log, () =>
      slots.move(watched, (slot): ChannelChanges | undefined => {
        const found = findChannel(slot, id);
        isLearned = found?.hasOwnKey === true && isBeingCreated(found) && ["", key].includes(found.key);
        if (found === undefined || !isLearned || found.key === key) return undefined;
        return { put: [{ ...found, key }], removed: [], notices: [] };
      }),
    );
    return isLearned;
  },
});
