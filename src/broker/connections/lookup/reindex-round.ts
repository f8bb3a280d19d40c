import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { createLeases, type Lease, LeaseLost } from "../../../store/leases.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import type { LookupFields } from "./lookup-fields.ts";
import { createReindexPlan, type ReindexWork } from "./reindex-plan.ts";
import { runReindex } from "./reindex-run.ts";

/** Whether providers or integrations have changed since the last complete look. */
export interface ReindexDue {
  isDue: boolean;
}

interface ReindexRoundOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly fields: LookupFields;
  /** Set again if work is left that cannot be done now. */
  readonly due: ReindexDue;
  readonly isEnded: () => boolean;
  readonly world: World;
}

const leaseMs = 30_000;

/** Returns a function that does all work that can be done now, under a lease: only one of several replicas works. */
export function createReindexRound(options: ReindexRoundOptions): () => Promise<void> {
  const { store, collections, fields, due, isEnded, world } = options;
  const leases = createLeases(store);
  const plan = createReindexPlan({ store, collections, fields, world });

  async function file(work: ReindexWork, lease: Lease): Promise<void> {
    const isOver = () => isEnded() || fields.known(work.provider) !== work.wanted;
    const areRowsWritten = () => fields.rows.isWritten;
    const isDone = await runReindex({ store, collections, areRowsWritten, lease, leaseMs, work, isOver, world });
    if (!isDone) due.isDue = true;
    plan.agree(work.provider, work.wanted);
  }

  return async () => {
    let lease: Lease | undefined;
    try {
      for (;;) {
        const wasDue = due.isDue;
        due.isDue = false;
        const { work, isLeft } = await plan.next(wasDue);
        if (work.length === 0 && !due.isDue) {
          due.isDue = isLeft;
          return;
        }
        if (lease === undefined) {
          due.isDue = true;
          lease = await leases.take("lookup-filing", leaseMs);
          if (lease === undefined) return;
          // The last holder of the lease may have done some of the work.
          continue;
        }
        for (const one of work) await file(one, lease);
        if (isEnded()) return;
      }
    } catch (error) {
      // Another replica has the lease and continues.
      if (!(error instanceof LeaseLost)) throw error;
      due.isDue = true;
    } finally {
      await lease
        ?.release()
        .catch((err: unknown) => world.log.debug("lease not released; it expires by itself", { err }));
    }
  };
}
