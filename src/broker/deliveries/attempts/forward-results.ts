import type { World } from "../../../base/world.ts";
import type { StoredForward } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { StaleWrite, type Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { HeldPartition } from "../../partitions/held-partition.ts";
import type { DeliveryPartitions } from "../delivery-partitions.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { WebhookCollections } from "../webhook-collections.ts";
import { type ForwardUpdate, updated } from "./forward-update.ts";
import { untilStored } from "./until-stored.ts";

/** Stores the results of delivery attempts. */
export interface ForwardResults {
  /**
   * Stores the result of an attempt, retrying as long as the store needs: without it the forward would be sent again. A
   * successful delivery is stored whichever replica has the partition now; a failure only if this one has it. The
   * signal ends the retries.
   */
  record(result: DeliveryResult, signal: AbortSignal): Promise<void>;
}

interface DeliveryResult {
  readonly before: StoredRecordOf<StoredForward>;
  readonly update: ForwardUpdate;
  /** The forward's partition when the attempt began. */
  readonly partition: HeldPartition;
}

interface ForwardResultsOptions {
  readonly store: Store;
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly outbox: Pick<Outbox, "forgetCommitted">;
  readonly ours: Pick<DeliveryPartitions, "held" | "lost">;
  readonly world: World;
}

export function createForwardResults(options: ForwardResultsOptions): ForwardResults {
  const { store, collections, outbox, ours, world } = options;
  const { forwards } = collections;

  async function commit({ before, partition }: DeliveryResult, after: StoredForward): Promise<void> {
    // The partition may have been lost and taken again while the store took no writes. One that is given back stays
    // ours until its attempts have ended.
    const held = ours.held({ partition: partition.number }) ?? partition;
    const conditions = after.state === Forward_State.DELIVERED ? [] : [held.fence];
    try {
      // A crash meanwhile only repeats the delivery.
      await store.commit(forwards.change({ before, after }), conditions, { mayWait: true });
    } catch (error) {
      if (!(error instanceof StaleWrite)) throw error;
      // The forward was replayed or purged in the meantime, or another replica took over: the stored state wins.
      outbox.forgetCommitted(before.value);
      if (conditions.length > 0 && held.isLostBy(error)) ours.lost(held);
    }
  }

  return {
    async record(result, signal) {
      const after = updated(result.before.value, result.update, world.now());
      await untilStored(() => commit(result, after), { log: world.log, signal });
    },
  };
}
