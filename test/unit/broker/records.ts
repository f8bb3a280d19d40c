import type { JsonObject } from "@bufbuild/protobuf";
import type { RecordFilter, RecordScope, SyncRecords } from "../../../src/broker/records/sync-records.ts";
import { dataIn } from "../../../src/broker/records/sync-records.ts";
import { refOf } from "./open-broker.ts";

export const contacts = (id = "ada"): RecordScope => ({ connection: refOf(id), model: "Contact", variant: "" });

export const everything: RecordFilter = {
  cursor: "",
  limit: 100,
  actions: [],
  modifiedAfterMs: undefined,
  ids: [],
  maxBytes: Number.POSITIVE_INFINITY,
};

/** Records as `id action data`, in list order. */
export async function shown(records: SyncRecords, of: RecordScope, filter: Partial<RecordFilter> = {}) {
  const { records: page } = await records.list(of, { ...everything, ...filter });
  return page.map(({ record }): readonly [string, string, JsonObject] => [
    record.id,
    record.lastAction,
    dataIn(record),
  ]);
}
