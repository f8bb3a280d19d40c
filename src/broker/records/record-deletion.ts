import { recordIds } from "../../core/scripts/record-change.ts";
import type { RecordModel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after } from "../../store/keys.ts";
import { createDigestSet } from "./digest-set.ts";
import { recordPlaceDigest, recordPlacesUnder } from "./record-collections.ts";
import {
  placeIn,
  type RecordCommitContext,
  type RecordCommits,
  type RecordDecision,
  type RecordScope,
  type RecordWriteOptions,
} from "./record-commits.ts";
import type { RecordDigests } from "./record-digests.ts";

/**
 * Deletes the records that a complete full run did not return, since the provider no longer has them. Kept only in
 * memory: a run that does not finish deletes nothing.
 */
export interface DeleteDetection {
  /** Notes records that the run returned, new or not, by ID or whole. */
  seen(records: readonly unknown[]): void;
  /** Called after a complete run. Deletes the other records, in commits of bounded size; returns how many. */
  finish(): Promise<number>;
  /** The memory in use. */
  readonly bytes: number;
}

interface DeleteDetectionOptions {
  readonly store: Store;
  readonly digests: RecordDigests;
  readonly commit: RecordCommits["commit"];
  /** Decides the deletion of these records. */
  readonly deleteAt: (context: RecordCommitContext, digests: readonly Buffer[]) => Promise<RecordDecision<number>>;
  readonly of: RecordScope & { readonly connectionNumber: number };
  readonly variant: string;
  /** The model when the run began; undefined: no records existed. */
  readonly modelAtStart: RecordModel | undefined;
  readonly writing: RecordWriteOptions;
}

const pageSize = 500;

export function createDeleteDetection(options: DeleteDetectionOptions): DeleteDetection {
  const { store, digests, commit, deleteAt, of, variant, modelAtStart: began, writing } = options;
  const { connectionNumber, model } = of;
  const scope = { connectionNumber, model, variant };
  const seen = createDigestSet();

  /** Returns the records of a page that existed before the run and were not seen by it. */
  const unseenIn = (page: Awaited<ReturnType<Store["list"]>>, began: RecordModel): Buffer[] =>
    page
      .filter((entry) => {
        const { sequence, deletedMs } = placeIn(entry);
        // Skips records that changed since the run began: the writer knew of them.
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
          deleted += await commit(of, writing, async (context) => {
            // All records were dropped in the meantime: the current ones are newer.
            if (context.model.space !== began.space) return { result: 0 };
            const all = await context.placesOf(unseen);
            return deleteAt(
              context,
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
