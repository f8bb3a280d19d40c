import type { JsonObject } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { dataIn, type ListedRecord, type RecordPage } from "../../broker/records/sync-records.ts";
import { requireRecordsWithin, spendRequest } from "../../broker/setup/caller.ts";
import { metadataField, nameMistake } from "../../core/scripts/record-change.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { connectionIn } from "../proxy/forwarding/connection-headers.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { inBody } from "./body-fields.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";
import type { QueryField } from "./query-fields.ts";
import { recordFilter, recordQuery } from "./record-query.ts";

const model: QueryField<string> = {
  type: "string",
  required: true,
  read(query, name) {
    const value = query.text(name) ?? "";
    const wrong = nameMistake(value);
    if (wrong !== undefined) query.refuse(name, wrong);
    return value;
  },
};
const listQuery = { model, ...recordQuery };
const pruneBody = {
  model: inBody.requiredText,
  variant: inBody.text,
  until_cursor: inBody.requiredText,
  limit: inBody.integer({ min: 1, max: 10_000, fallback: 1_000 }),
};

const list = {
  method: "GET",
  scope: Scope.CONNECTIONS_READ,
  query: listQuery,
  takesLimited: true,
  handle: listRecords,
} as const;

/** Routes that the SDK uses for records. */
export const recordRoutes: readonly JsonRoute[] = [
  // Two spellings: the product description has one, the published SDK the other.
  jsonRoute({ ...list, path: "/records" }),
  jsonRoute({ ...list, path: "/records/" }),
  jsonRoute({
    method: "PATCH",
    path: "/records/prune",
    scope: Scope.CONNECTIONS_WRITE,
    body: pruneBody,
    handle: pruneRecords,
  }),
];

async function listRecords(request: JsonRequest<typeof listQuery>, { records }: Broker): Promise<RouteAnswer> {
  const { query, caller } = request;
  const { model, variant } = query;
  const connection = connectionIn(request);
  requireRecordsWithin(caller, connection);
  await spendRequest(caller);
  const page = await records.list({ connection, model, variant }, recordFilter(query));
  return recordsAnswer(page);
}

async function pruneRecords(
  request: JsonRequest<NoFields, typeof pruneBody>,
  { records }: Broker,
): Promise<RouteAnswer> {
  const { model, variant = "", until_cursor: until, limit } = request.body;
  const { count, hasMore } = await records.prune(
    { connection: connectionIn(request), model, variant },
    { until, limit },
  );
  return { status: 200, body: { count, has_more: hasMore } };
}

export const recordsAnswer = ({ records, next }: RecordPage): RouteAnswer => ({
  status: 200,
  body: { records: records.map(recordJson), next_cursor: next === "" ? null : next },
});

/** Returns a saved record with its metadata. A pruned record only keeps its id. */
export function recordJson({ record, cursor }: ListedRecord): JsonObject {
  const { id, lastAction, firstSeenMs, lastModifiedMs, deletedMs, prunedMs } = record;
  const data = prunedMs > 0 ? { id } : dataIn(record);
  const known = {
    first_seen_at: iso(firstSeenMs),
    last_modified_at: iso(lastModifiedMs),
    last_action: lastAction,
    deleted_at: deletedMs === 0 ? null : iso(deletedMs),
    pruned_at: prunedMs === 0 ? null : iso(prunedMs),
    cursor,
  };
  return { ...data, [metadataField]: known };
}

const iso = (ms: number): string => new Date(ms).toISOString();
