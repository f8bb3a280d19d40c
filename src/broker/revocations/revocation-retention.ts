import type { World } from "../../base/world.ts";
import { Revocation_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createdMsOf, type RevocationCollections } from "./revocation-collections.ts";

interface RevocationSweepOptions {
  readonly store: Store;
  readonly collections: Pick<RevocationCollections, "revocations">;
  readonly world: World;
}

const keptMs = 30 * 86_400_000;
const perCommit = 500;
const commitsPerSweep = 20;

/** Returns the function that deletes revocations that ended, once they are 30 days old. */
export function createRevocationSweep({ store, collections, world }: RevocationSweepOptions) {
  const { revocations } = collections;
  return async (signal: AbortSignal): Promise<void> => {
    let after: string | undefined;
    for (let i = 0; i < commitsPerSweep && !signal.aborted; i += 1) {
      const oldest = await revocations.pageBy("age", { under: [], after, limit: perCommit });
      const old = oldest.filter(({ value }) => createdMsOf(value) <= world.now() - keptMs);
      const gone = old.filter(({ value }) => value.state !== Revocation_State.PENDING);
      if (gone.length > 0) {
        await store.commit(gone.flatMap((before) => revocations.change({ before, after: undefined })));
      }
      if (old.length < perCommit) return;
      after = old.at(-1)?.position;
    }
  };
}
