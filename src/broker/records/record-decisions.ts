import { create, fromBinary } from "@bufbuild/protobuf";
import { effectOfSave, mergedRecord, type NewRecord, type recordPatches } from "../../core/scripts/record-change.ts";
import { type RecordPlace, type StoredRecord, StoredRecordSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { recordKey } from "./record-collections.ts";
import type { RecordCommitContext, RecordMove } from "./record-commits.ts";

/** Decides how records move: which of the given ones change, and what becomes of them. */
export interface RecordDecisions {
  save(context: RecordCommitContext, records: readonly NewRecord[]): Promise<RecordMoves>;
  /** Skips records that do not exist, or are deleted. */
  update(context: RecordCommitContext, patches: ReturnType<typeof recordPatches>): Promise<RecordMoves>;
  delete(context: RecordCommitContext, digests: readonly Buffer[]): Promise<RecordMoves>;
}

export interface RecordMoves {
  readonly moves: readonly RecordMove[];
  /** The records that were considered: the given ones, or those of them that exist. */
  readonly considered: number;
}

interface PresentRecord {
  readonly digest: Buffer;
  readonly before: RecordPlace;
  readonly record: StoredRecord;
}

export function createRecordDecisions(store: Pick<Store, "getMany">): RecordDecisions {
  async function recordsAt(space: string, sequences: readonly bigint[]): Promise<readonly StoredRecord[]> {
    const found = await store.getMany(sequences.map((sequence) => recordKey(space, sequence)));
    return found.map((entry) =>
      entry === undefined ? create(StoredRecordSchema) : fromBinary(StoredRecordSchema, entry.value),
    );
  }

  /** Returns the existing records that are not deleted, with their data. */
  async function presentOf(
    { model, placesOf }: RecordCommitContext,
    digests: readonly Buffer[],
  ): Promise<readonly PresentRecord[]> {
    const places = await placesOf(digests);
    const present = digests.flatMap((digest, i) => {
      const before = places[i];
      return before === undefined || before.deletedMs > 0 ? [] : [{ digest, before }];
    });
    const records = await recordsAt(
      model.space,
      present.map(({ before }) => before.sequence),
    );
    return present.map((one, i) => ({ ...one, record: records[i] ?? create(StoredRecordSchema) }));
  }

  return {
    async save({ digests, model, placesOf }, records) {
      const found = records.map(({ id }) => digests.of(model, id));
      const places = await placesOf(found);
      const moves = records.flatMap(({ id, data, dataHash }, i): RecordMove[] => {
        const [digest, before] = [found[i], places[i]];
        const action = effectOfSave(before, { dataHash });
        return action === undefined || digest === undefined ? [] : [{ digest, id, before, action, data, dataHash }];
      });
      return { moves, considered: records.length };
    },
    async update(context, patches) {
      const { digests, model } = context;
      const patchOf = new Map(patches.map(({ id, patch }) => [id, patch]));
      const present = await presentOf(
        context,
        patches.map(({ id }) => digests.of(model, id)),
      );
      const moves = present.flatMap(({ digest, before, record: { id, data: old } }): RecordMove[] => {
        const { data, dataHash } = mergedRecord(id, old, patchOf.get(id) ?? {});
        const action = effectOfSave(before, { dataHash });
        return action === undefined ? [] : [{ id, digest, before, action, data, dataHash }];
      });
      return { moves, considered: present.length };
    },
    async delete(context, digests) {
      const present = await presentOf(context, digests);
      const moves = present.map(({ digest, before, record: { id, data, prunedMs } }): RecordMove => {
        return { digest, before, id, data, prunedMs, dataHash: before.dataHash, action: "DELETED" };
      });
      return { moves, considered: moves.length };
    },
  };
}
