import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { EndUserDeletion_State } from "../../gen/latchkey/v1/end_user_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { EndUserCollections } from "./end-user-collections.ts";

interface DeletionSweepOptions {
  readonly store: Store;
  readonly collections: EndUserCollections;
  readonly world: World;
}

const keptMs = 30 * 86_400_000;
const perSweep = 500;

/** Returns the function that deletes reports of end users' deletions, 30 days after the call. */
export function createDeletionSweep({ store, collections, world }: DeletionSweepOptions): () => Promise<void> {
  const { endUserDeletions } = collections;
  return async () => {
    const oldest = await endUserDeletions.pageBy("age", { under: [], limit: perSweep });
    const gone = oldest.filter(({ value: { deletion } }) => {
      const createdMs = deletion?.createdAt === undefined ? 0 : timestampMs(deletion.createdAt);
      return deletion?.state !== EndUserDeletion_State.RUNNING && createdMs <= world.now() - keptMs;
    });
    if (gone.length === 0) return;
    await store.commit(gone.flatMap((before) => endUserDeletions.change({ before, after: undefined })));
  };
}
