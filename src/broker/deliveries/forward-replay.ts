import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredForward } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ForwardFilter, Forward_State as State } from "../../gen/latchkey/v1/webhook_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardRecords } from "./forward-list.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Sends forwards again on request. */
export interface ForwardReplay {
  replay(request: ReplayRequest, actor: string): Promise<ReplayResult>;
}

export interface ReplayRequest {
  readonly environment: string;
  readonly ids: readonly string[];
  /** Selects forwards in place of ids. */
  readonly filter: ForwardFilter | undefined;
}

export interface ReplayResult {
  readonly replayed: number;
  readonly refused: ReadonlyMap<string, Fault>;
}

interface ForwardReplayOptions {
  readonly store: Store;
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly destinations: Pick<Destinations, "urlOf">;
  readonly records: ForwardRecords;
  readonly audit: Audit;
  readonly world: World;
}

const replayChunk = 500;

export function createForwardReplay(options: ForwardReplayOptions): ForwardReplay {
  const { store, collections, destinations, records, audit, world } = options;
  const { forwards } = collections;

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
      if (destinations.urlOf(after) === "") {
        throw new Fault("conflict", "the environment has no forward URL to send it to");
      }
      try {
        await store.commit(forwards.change({ before, after }));
        return;
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  return {
    async replay({ environment, ids, filter }, actor) {
      const refused = new Map<string, Fault>();
      let replayed = 0;
      const replayAll = (chunk: readonly string[]) =>
        Promise.all(
          chunk.map(async (id) => {
            try {
              await replayOne(environment, id);
              replayed += 1;
            } catch (error) {
              // A Fault concerns this forward alone; an error of the store concerns all of them.
              if (!(error instanceof Fault)) throw error;
              refused.set(id, error);
            }
          }),
        );
      await replayAll(ids);
      if (filter !== undefined) {
        for (let token = ""; ; ) {
          const { items, next } = await records.page({ environment, filter }, { size: replayChunk, token });
          await replayAll(items.map(({ value }) => value.id));
          token = next;
          if (token === "") break;
        }
      }
      const targets = ids.length > 0 ? ids.slice(0, 100) : ["by filter"];
      await store.commit(audit.changes({ actor, action: "forward.replay", environment, targets }));
      return { replayed, refused };
    },
  };
}
