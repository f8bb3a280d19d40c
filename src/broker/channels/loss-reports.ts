import type { World } from "../../base/world.ts";
import type { ChannelRhythm, StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { CatchUp } from "../syncs/catch-up.ts";
import { type ChannelObservation, type IntegrationChannelRules, rhythmChange } from "./observations.ts";
import type { Loss } from "./rules/gap.ts";
import { recordCaughtUp, recordLoss } from "./rules/loss.ts";
import { idOf, resourceOf } from "./rules/slot.ts";
import type { ChannelSlots } from "./slots.ts";

/** Reports lost notifications to the application, and starts the syncs that catch up with them. */
export interface LossReports {
  /** Stores the event for the application, and that it was sent, in one commit. */
  report(stored: StoredChannel, after: ChannelRhythm, loss: Loss): Promise<void>;
  /** Starts the syncs for a channel with a loss. If they cannot start now, the next scan tries again. */
  startCatchUp(observation: CatchUpSubject): Promise<void>;
}

interface CatchUpSubject extends Pick<ChannelObservation, "stored"> {
  readonly rules: Pick<IntegrationChannelRules, "catchUpSyncs"> | undefined;
}

interface LossReportsOptions {
  readonly slots: ChannelSlots;
  readonly catchUp: CatchUp;
  readonly world: World;
}

export const createLossReports = ({ slots, catchUp, world }: LossReportsOptions): LossReports => ({
  async report(stored, after, { kind, code }) {
    // A new channel would not help one that never delivered: the webhook URL is probably unreachable.
    const isToRenew = code === "beyond_its_rhythm" || code === "no_heartbeat";
    await slots.move(
      resourceOf(stored),
      (slot) => recordLoss(slot, idOf(stored), { kind, code, isToRenew }, world.now()),
      {
        leavesMetadata: true,
        alongside: () => [rhythmChange(stored, after)],
      },
    );
  },
  async startCatchUp({ stored, rules }) {
    const { ref } = resourceOf(stored);
    const { environment, integration, id: connection } = ref;
    const syncs = rules?.catchUpSyncs ?? [];
    try {
      if (syncs.length > 0) {
        await catchUp(ref, syncs, stored.catchUp);
        world.metrics.channelCatchUps.inc({ outcome: "asked" });
      }
    } catch (err) {
      world.metrics.channelCatchUps.inc({ outcome: "failed" });
      const fields = { environment, integration, connection, err };
      world.log.warn("could not start the catch-up syncs of a channel; will retry", fields);
      return;
    }
    await slots.move(resourceOf(stored), (slot) => recordCaughtUp(slot, idOf(stored)), { leavesMetadata: true });
  },
});
