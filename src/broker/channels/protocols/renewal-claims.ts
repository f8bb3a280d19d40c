import type { World } from "../../../base/world.ts";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { beginRenewal } from "../rules/renewing.ts";
import { idOf, isIdle, resourceOf } from "../rules/slot.ts";
import type { ChannelSlots } from "../slots.ts";
import type { ChannelWatch } from "./protocol.ts";

/** Claims of channels that are renewed in place, so that no other process sends the same request. */
export interface RenewalClaims {
  /** Stores that the channel is about to be renewed. Undefined: it has changed, and no request may be sent. */
  claim(request: Pick<ChannelWatch, "watched" | "options">, id: string): Promise<StoredChannel | undefined>;
  /** Claims further channels of the connection that are due soon, for the same request. */
  claimNeighbors(request: ChannelWatch, first: StoredChannel): Promise<readonly StoredChannel[]>;
}

interface RenewalClaimsOptions {
  readonly slots: ChannelSlots;
  readonly world: World;
}

/** A channel due within this share of its life is renewed together with one that is due now. */
const togetherShare = 0.1;

export function createRenewalClaims({ slots, world }: RenewalClaimsOptions): RenewalClaims {
  const claim: RenewalClaims["claim"] = async ({ watched, options: { alongside, fence } }, id) => {
    const begun = await slots.move(watched, (slot) => beginRenewal(slot, id, world.now()), {
      fence,
      ...(alongside !== undefined && { alongside }),
    });
    return begun?.put.find((one) => idOf(one) === id);
  };
  return {
    claim,
    async claimNeighbors({ watched, rule }, first) {
      const most = rule.watch.renewBatch - 1;
      if (most < 1) return [];
      const byMs = world.now() + first.lifeMs * togetherShare;
      const due = (await slots.readAll(watched.ref)).filter((one) => {
        const { kind, resource } = resourceOf(one);
        const isOther = kind === watched.kind && resource !== watched.resource;
        return isOther && isIdle(one) && !one.reauthorize && one.dueMs > 0 && one.dueMs <= byMs;
      });
      const claimed: StoredChannel[] = [];
      for (const one of due.slice(0, most)) {
        const own = await claim({ watched: resourceOf(one), options: {} }, idOf(one));
        if (own !== undefined) claimed.push(own);
      }
      return claimed;
    },
  };
}
