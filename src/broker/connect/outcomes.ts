import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { ConnectOutcomeSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store, StoreUnavailable } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";

/**
 * Passes outcomes of authorizations between the processes of one store: a browser may return to another process than
 * the one at which its page waits.
 */
export interface Outcomes {
  /**
   * Sends an outcome to the process that has the page, if any. A lost outcome is not sent again: it is only a notice.
   */
  pass(listener: string, message: JsonObject): Promise<void>;
  /** Sets the receiver of outcomes, by the hash of the listener. */
  onPassed(hear: (listenerHash: string, message: JsonObject) => void): void;
  close(): void;
}

interface OutcomesOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
  readonly world: World;
}

/** Long after a page has received the outcome. */
export const outcomeLifetimeMs = 60_000;

export async function openOutcomes({ store, collections, world }: OutcomesOptions): Promise<Outcomes> {
  const { connectOutcomes } = collections;
  let hear: (listenerHash: string, message: JsonObject) => void = () => {};
  const watch = await follow({
    store,
    world,
    spaces: [connectOutcomes.name],
    // Only future outcomes matter: no page waited here before.
    read: async () => () => {},
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const passed = connectOutcomes.read(change, revision)?.value;
        if (passed !== undefined) hear(passed.listenerHash, passed.message ?? {});
      }
    },
  });
  return {
    async pass(listener, message) {
      const createdAt = timestampFromMs(world.now());
      const after = create(ConnectOutcomeSchema, { listenerHash: digestOf(listener), message, createdAt });
      try {
        await store.commit(connectOutcomes.change({ before: undefined, after }));
      } catch (error) {
        // The listener already has an outcome; or the store is unavailable, and then no outcome was stored anyway.
        if (!(error instanceof StaleWrite || error instanceof StoreUnavailable)) throw error;
      }
    },
    onPassed(listener) {
      hear = listener;
    },
    close: () => watch.close(),
  };
}
