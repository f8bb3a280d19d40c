import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredForward } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State as State } from "../../gen/latchkey/v1/webhook_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import { updated } from "./attempts/forward-update.ts";
import type { ForwardList, ForwardRecords } from "./forward-list.ts";
import { type ForwardPreview, type ForwardSelection, forEachSelected, previewOf } from "./forward-selection.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Gives up waiting forwards on request. */
export interface ForwardCancellation {
  cancel(selection: ForwardSelection, actor: string): Promise<CancellationResult>;
  previewCancel(selection: ForwardSelection, signal: AbortSignal): Promise<ForwardPreview>;
}

export interface CancellationResult {
  readonly cancelled: number;
  readonly refused: ReadonlyMap<string, Fault>;
}

interface ForwardCancellationOptions {
  readonly store: Store;
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly records: ForwardRecords & Pick<ForwardList, "outline">;
  readonly audit: Audit;
  readonly world: World;
}

const waitingStates: readonly State[] = [State.PENDING, State.PAUSED];

export function createForwardCancellation(options: ForwardCancellationOptions): ForwardCancellation {
  const { store, collections, records, audit, world } = options;
  const { forwards } = collections;

  async function cancelOne(environment: string, id: string): Promise<void> {
    for (;;) {
      const before = await records.find(environment, id);
      requireWaiting(before.value);
      const after = updated(before.value, { state: State.CANCELLED, stateReason: "" }, world.now());
      try {
        await store.commit(forwards.change({ before, after }));
        return;
      } catch (error) {
        // An attempt has ended in the meantime.
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  return {
    async cancel(selection, actor) {
      const { environment, ids, filter } = selection;
      const waiting = waitingOf(selection);
      const { done, refused } = await forEachSelected(waiting, records, (id) => cancelOne(environment, id));
      const targets = ids.length > 0 ? ids.slice(0, 100) : ["by filter"];
      await store.commit(audit.changes({ actor, action: "forward.cancel", environment, targets }));
      // A forward that the filter found may have been delivered before its turn.
      return { cancelled: done, refused: filter === undefined ? refused : new Map() };
    },
    previewCancel: (selection, signal) => previewOf(waitingOf(selection), { records, require: requireWaiting, signal }),
  };
}

function requireWaiting({ state }: StoredForward): void {
  if (state !== State.PENDING) throw new Fault("conflict", "only a delivery that waits can be cancelled");
}

/** Narrows a filter to waiting forwards. */
function waitingOf(selection: ForwardSelection): ForwardSelection {
  const { filter } = selection;
  if (filter === undefined) return selection;
  const states = filter.states.length === 0 ? waitingStates : filter.states;
  if (states.every((state) => waitingStates.includes(state)))
    return { ...selection, filter: { ...filter, states: [...states] } };
  const message = "must be pending or paused: only deliveries that wait can be cancelled";
  throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["filter", "states"], message }] });
}
