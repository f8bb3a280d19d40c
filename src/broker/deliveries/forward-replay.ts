import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredForward } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State as State } from "../../gen/latchkey/v1/webhook_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardList, ForwardRecords } from "./forward-list.ts";
import { type ForwardPreview, type ForwardSelection, forEachSelected, previewOf } from "./forward-selection.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Sends forwards again on request. */
export interface ForwardReplay {
  replay(selection: ForwardSelection, actor: string): Promise<ReplayResult>;
  previewReplay(selection: ForwardSelection, signal: AbortSignal): Promise<ForwardPreview>;
}

export interface ReplayResult {
  readonly replayed: number;
  readonly refused: ReadonlyMap<string, Fault>;
}

interface ForwardReplayOptions {
  readonly store: Store;
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly destinations: Pick<Destinations, "urlOf">;
  readonly records: ForwardRecords & Pick<ForwardList, "outline">;
  readonly audit: Audit;
  readonly world: World;
}

export function createForwardReplay(options: ForwardReplayOptions): ForwardReplay {
  const { store, collections, destinations, records, audit, world } = options;
  const { forwards } = collections;

  function requireUrl(forward: StoredForward): void {
    if (destinations.urlOf(forward) === "") {
      throw new Fault("conflict", "the environment has no forward URL to send it to");
    }
  }

  /** Resets a forward as if it were new; its past attempts stay visible. */
  async function replayOne(environment: string, id: string): Promise<void> {
    for (;;) {
      const before = await records.find(environment, id);
      if (before.value.state === State.PENDING && before.value.attemptCount === 0) return;
      const now = timestampFromMs(world.now());
      const { scheduledFor: _, ...rest } = before.value;
      const after: StoredForward = {
        ...rest,
        state: State.PENDING,
        stateReason: "",
        scheduleStep: 0,
        nextAttemptAt: now,
        updatedAt: now,
      };
      requireUrl(after);
      try {
        await store.commit(forwards.change({ before, after }));
        return;
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  return {
    async replay(selection, actor) {
      const { environment, ids } = selection;
      const { done, refused } = await forEachSelected(selection, records, (id) => replayOne(environment, id));
      const targets = ids.length > 0 ? ids.slice(0, 100) : ["by filter"];
      await store.commit(audit.changes({ actor, action: "forward.replay", environment, targets }));
      return { replayed: done, refused };
    },
    previewReplay: (selection, signal) => previewOf(selection, { records, require: requireUrl, signal }),
  };
}
