import { recordIds } from "../../core/scripts/record-change.ts";
import type { RecordModel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after } from "../../store/keys.ts";
import { recordPlaceDigest, recordPlacesUnder } from "../collections.ts";
import { createDigestSet } from "./digest-set.ts";
import {
  placeIn,
  type RecordCommitContext,
  type RecordCommits,
  type RecordDecision,
  type RecordsOf,
  type RecordWriteOptions,
} from "./record-commits.ts";
import type { RecordDigests } from "./record-digests.ts";

/**
 * What a whole full run did not bring is gone at the provider. Known in memory alone: of a run that does not come to
 * its end nothing is deleted.
 */
export interface DeleteDetection {
  /** The run has brought these, by id or whole, be they new or not. */
  seen(records: readonly unknown[]): void;
  /** The run is over and has brought everything. Deletes the rest, a bounded commit at a time; returns how many. */
  finish(): Promise<number>;
  /** What it takes up. */
  readonly bytes: number;
}

interface DeleteDetectionOptions {
  readonly store: Store;
  readonly digests: RecordDigests;
  readonly commit: RecordCommits["commit"];
  /** What deleting these does. */
  readonly deleteAt: (ground: RecordCommitContext, digests: readonly Buffer[]) => Promise<RecordDecision<number>>;
  readonly of: RecordsOf & { readonly connectionNumber: number };
  readonly variant: string;
  /** As the run found it; undefined: nothing was there. */
  readonly began: RecordModel | undefined;
  readonly writing: RecordWriteOptions;
}

const pageSize = 500;

export function createDeleteDetection(options: DeleteDetectionOptions): DeleteDetection {
  const { store, digests, commit, deleteAt, of, variant, began, writing } = options;
  const { connectionNumber, model } = of;
  const scope = { connectionNumber, model, variant };
  const seen = createDigestSet();

  /** Those of a page of places that were there before the run began, and that it has not seen. */
  const unseenIn = (page: Awaited<ReturnType<Store["list"]>>, began: RecordModel): Buffer[] =>
    page
      .filter((entry) => {
        const { sequence, deletedMs } = placeIn(entry);
        // What changed since is somebody's who knew of it.
        return deletedMs === 0 && sequence <= began.sequence;
      })
      .map(({ key }) => Buffer.from(recordPlaceDigest(key), "base64url"))
      .filter((digest) => !seen.has(digest));

  return {
    seen(records) {
      for (const id of recordIds(records)) seen.add(digests.of(scope, id));
    },
    async finish() {
      let deleted = 0;
      if (began === undefined) {
        await commit(of, writing, () => ({ result: undefined }));
        return deleted;
      }
      const range = recordPlacesUnder(began.space);
      for (let { from } = range; ; ) {
        const page = await store.list({ from, to: range.to, limit: pageSize });
        const unseen = unseenIn(page, began);
        if (unseen.length > 0) {
          deleted += await commit(of, writing, async (ground) => {
            // All of them were dropped meanwhile: what is there now came later.
            if (ground.model.space !== began.space) return { result: 0 };
            const all = await ground.placesOf(unseen);
            return deleteAt(
              ground,
              unseen.filter((_, i) => (all[i]?.sequence ?? Number.POSITIVE_INFINITY) <= began.sequence),
            );
          });
        }
        const last = page.at(-1);
        if (last === undefined || page.length < pageSize) return deleted;
        from = after(last.key);
      }
    },
    get bytes() {
      return seen.bytes;
    },
  };
}
