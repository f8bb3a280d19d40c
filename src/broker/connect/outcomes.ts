import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { ConnectOutcomeSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store, StoreUnavailable } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { Collections } from "../collections.ts";

/**
 * What came of authorizations, between the processes of one store: a browser may come back to another one than that
 * at which its page waits.
 */
export interface Outcomes {
  /** To whichever process has the page, if any has. What is lost here the page learns from nobody: it is no more than told. */
  pass(listener: string, message: JsonObject): Promise<void>;
  /** Who hears of them, by the hash of the listener. */
  onPassed(hear: (listenerHash: string, message: JsonObject) => void): void;
  close(): void;
}

interface OutcomesOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly world: World;
}

/** Long after a page has heard of it. */
export const outcomeLifetimeMs = 60_000;

export async function openOutcomes({ store, collections, world }: OutcomesOptions): Promise<Outcomes> {
  const { connectOutcomes } = collections;
  let hear: (listenerHash: string, message: JsonObject) => void = () => {};
  const watch = await follow({
    store,
    world,
    spaces: [connectOutcomes.name],
    // Only what comes from now on: nobody waited here before.
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
        // It has been told one already; or there is no store, and then nothing came of it anyway.
        if (!(error instanceof StaleWrite || error instanceof StoreUnavailable)) throw error;
      }
    },
    onPassed(listener) {
      hear = listener;
    },
    close: () => watch.close(),
  };
}
