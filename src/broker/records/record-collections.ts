import { type RecordModel, RecordModelSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf, partsOf, under } from "../../store/keys.ts";
import { createRecords } from "../../store/records.ts";
import { keysUntil, sortable } from "../stored/sortable-time.ts";

/** Models of the records that syncs save. The records themselves have keys of their own, below. */
export function createRecordCollections(store: Store) {
  return {
    recordModels: createRecords({
      store,
      name: "record-model",
      schema: RecordModelSchema,
      key: ({ connectionNumber, model, variant }: RecordModel) => [String(connectionNumber), model, variant],
      keyParts: 3,
      indexes: { touched: ({ touchedMs }: RecordModel) => (touchedMs === 0 ? [] : [[sortable(touchedMs)]]) },
    }),
  } as const;
}

export type RecordCollections = ReturnType<typeof createRecordCollections>;

/** The stored value is encrypted. The sequence number has 16 digits, as many as the largest exact integer. */
export const recordKey = (space: string, sequence: bigint) =>
  keyOf("record", space, String(sequence).padStart(16, "0"));

export const recordsUnder = (space: string) => under("record", space);

/** Reads the sequence number from a record's key. */
export const recordSequence = (key: string): bigint => BigInt(partsOf(key)[2] ?? 0);

/** The stored value is encrypted. */
export const recordPlaceKey = (space: string, digest: string) => keyOf("record-place", space, digest);

export const recordPlacesUnder = (space: string) => under("record-place", space);

export const recordPlaceDigest = (key: string): string => partsOf(key)[2] ?? "";

/** Index of deleted records by the time of deletion; removed after the retention period. */
export const deletedRecordKey = (deletedMs: number, space: string, digest: string) =>
  keyOf("record-deleted", sortable(deletedMs), space, digest);

export const deletedRecordsUntil = (ms: number) => keysUntil("record-deleted", ms);

/** Keys of data still to be removed: of a model whose records were all dropped, and of a deleted connection. */
export const droppedSpaceKey = (space: string) => keyOf("record-dropped", space);

export const droppedSpaces = under("record-dropped");

/** Range of the secondary index of models that no run has used since then; each key ends in the model's key. */
export const recordModelsUntouchedSince = (ms: number) => ({
  from: under("record-model.touched").from,
  to: keyOf("record-model.touched", sortable(ms)),
});

/** The stored value is encrypted: the key for hashing record IDs. */
export const recordDigestKey = keyOf("record-digest-key");
