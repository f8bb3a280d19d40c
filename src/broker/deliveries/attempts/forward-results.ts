import type { World } from "../../../base/world.ts";
import type { StoredForward } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { StaleWrite, type Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { DeliveryLease } from "../delivery-lease.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { WebhookCollections } from "../webhook-collections.ts";
import { type ForwardUpdate, updated } from "./forward-update.ts";
import { untilStored } from "./until-stored.ts";

/** Stores the results of delivery attempts. */
export interface ForwardResults {
  /**
   * Stores the result of an attempt, retrying as long as the store needs: without it the forward would be sent again. A
   * successful delivery is stored whichever replica holds the lease now; a failure only under our own lease. The signal
   * ends the retries.
   */
  record(before: StoredRecordOf<StoredForward>, update: ForwardUpdate, signal: AbortSignal): Promise<void>;
}

interface ForwardResultsOptions {
  readonly store: Store;
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly outbox: Pick<Outbox, "forgetCommitted">;
  readonly lease: Pick<DeliveryLease, "current" | "lost">;
  readonly world: World;
}

export function createForwardResults(options: ForwardResultsOptions): ForwardResults {
  const { store, collections, outbox, lease, world } = options;
  const { forwards } = collections;

  async function commit(before: StoredRecordOf<StoredForward>, after: StoredForward): Promise<void> {
    // Use the current lease: the lease at the start of the attempt may have expired while the store took no writes.
    const held = lease.current();
    const conditions = after.state === Forward_State.DELIVERED ? [] : held && [held.fence];
    if (conditions === undefined) return;
    try {
      await store.commit(forwards.change({ before, after }), conditions);
    } catch (error) {
      if (!(error instanceof StaleWrite)) throw error;
      // The forward was replayed or purged in the meantime, or another replica took over: the stored state wins.
      outbox.forgetCommitted(before.value);
      if (conditions.length > 0 && held?.isLostBy(error) === true) lease.lost(held);
    }
  }

  return {
    async record(before, update, signal) {
      const after = updated(before.value, update, world.now());
      await untilStored(() => commit(before, after), { log: world.log, signal });
    },
  };
}
