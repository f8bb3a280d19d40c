import type { RecordFilter } from "../../broker/records/sync-records.ts";
import { instantOrDateForms, readInstantOrDate } from "../../core/dialect/instant.ts";
import { idOf, type RecordAction, recordActions } from "../../core/scripts/record-change.ts";
import type { ValuesOf } from "./field-shape.ts";
import { inQuery, type QueryField } from "./query-fields.ts";

const defaultPage = 100;
const maxPage = 10_000;
const maxPageBytes = 16 * 1024 * 1024;
const maxIds = 1_000;

const actions: QueryField<readonly RecordAction[]> = {
  type: "array",
  items: { type: "string", oneOf: recordActions },
  read(query, name) {
    const named = query.list(name).map((action) => action.toUpperCase());
    const known = recordActions.filter((action) => named.includes(action));
    if (named.some((action) => !known.some((one) => one === action))) {
      query.refuse(name, "must be a list of added, updated and deleted, separated by commas");
    }
    return known;
  },
};

const instant: QueryField<number | undefined> = {
  type: "string",
  description: instantOrDateForms,
  read(query, name) {
    const text = query.text(name);
    if (text === undefined) return undefined;
    const ms = readInstantOrDate(text);
    if (ms === undefined) query.refuse(name, instantOrDateForms);
    return ms;
  },
};

/** Repeated, not separated by commas: an id may hold commas. */
const recordIds: QueryField<readonly string[]> = {
  type: "array",
  items: { type: "string" },
  maxItems: maxIds,
  read(query, name) {
    const ids = query.all(name);
    if (ids.length > maxIds || ids.some((id) => idOf(id) === undefined)) {
      query.refuse(name, `must be at most ${maxIds} record ids`);
    }
    return ids;
  },
};

/** The parameters that select records of a model. */
export const recordQuery = {
  variant: inQuery.text,
  cursor: inQuery.text,
  limit: inQuery.integer({ min: 1, max: maxPage }),
  filter: actions,
  // The SDK has two names for this parameter and sends one.
  modified_after: instant,
  delta: instant,
  ids: recordIds,
};

export const recordFilter = (query: ValuesOf<typeof recordQuery>): RecordFilter => ({
  cursor: query.cursor,
  limit: query.limit ?? defaultPage,
  actions: query.filter,
  modifiedAfterMs: query.modified_after ?? query.delta,
  ids: query.ids,
  maxBytes: maxPageBytes,
});
