import { create, type JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import {
  dataIn,
  type ListedRecord,
  type RecordFilter,
  type RecordPage,
  type RecordScope,
} from "../../broker/records/sync-records.ts";
import { instantOrDateForms, readInstantOrDate } from "../../core/dialect/instant.ts";
import { type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import {
  idOf,
  metadataField,
  nameMistake,
  type RecordAction,
  recordActions,
} from "../../core/scripts/record-change.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { QueryReader } from "../server/query.ts";
import { callerIn, type Route, type RouteAnswer, type RouteRequest } from "../server/routes.ts";

const defaultPage = 100;
const maxPage = 10_000;
const maxPageBytes = 16 * 1024 * 1024;
const maxIds = 1_000;
const defaultPruned = 1_000;
const maxPruned = 10_000;

/** Both spellings: the product description has one, the published SDK the other. */
const listPaths = ["/records", "/records/"];

export function recordRoutes({ records, countIgnored }: Broker): Route[] {
  const list = (path: string): Route => ({
    method: "GET",
    path,
    scope: Scope.CONNECTIONS_READ,
    async answer(request) {
      const connection = refOf(request);
      const { query } = request;
      const of: RecordScope = { connection, model: query.text("model") ?? "", variant: query.text("variant") ?? "" };
      const wrong = nameMistake(of.model);
      if (wrong !== undefined) query.refuse("model", wrong);
      const filter = recordFilterIn(query);
      countIgnored(path, query.end());
      return recordsAnswer(await records.list(of, filter));
    },
  });

  return [
    ...listPaths.map(list),
    {
      method: "PATCH",
      path: "/records/prune",
      scope: Scope.CONNECTIONS_WRITE,
      takesBody: true,
      async answer(request) {
        const connection = refOf(request);
        request.query.end();
        const { model, variant, until, limit, ignored } = readPrune(request.body);
        countIgnored("/records/prune", ignored);
        const { count, hasMore } = await records.prune({ connection, model, variant }, { until, limit });
        return { status: 200, body: { count, has_more: hasMore } };
      },
    },
  ];
}

/** Reads which records of a model to list. The caller ends the query. */
export const recordFilterIn = (query: QueryReader): RecordFilter => ({
  cursor: query.text("cursor") ?? "",
  limit: query.integer("limit", { min: 1, max: maxPage }) ?? defaultPage,
  actions: actionsIn(query),
  // The SDK has two names for this parameter and sends one.
  modifiedAfterMs: instantIn(query, "modified_after") ?? instantIn(query, "delta"),
  ids: idsIn(query),
  maxBytes: maxPageBytes,
});

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

function refOf(request: RouteRequest) {
  const { environment } = callerIn(request);
  const { headers } = request;
  const [integration, id] = [headers["provider-config-key"], headers["connection-id"]];
  if (typeof integration !== "string" || integration === "") {
    throw new Fault("invalid_headers", "name the integration: Provider-Config-Key: <key>");
  }
  if (typeof id !== "string" || id === "") {
    throw new Fault("invalid_headers", "name the connection: Connection-Id: <id>");
  }
  return create(ConnectionRefSchema, { environment, integration, id });
}

function actionsIn(query: QueryReader): readonly RecordAction[] {
  const named = query.list("filter").map((name) => name.toUpperCase());
  const known = recordActions.filter((action) => named.includes(action));
  if (named.some((name) => !known.some((action) => action === name))) {
    query.refuse("filter", "must be added, updated or deleted, or several of them with commas between");
  }
  return known;
}

function instantIn(query: QueryReader, name: string): number | undefined {
  const text = query.text(name);
  if (text === undefined) return undefined;
  const ms = readInstantOrDate(text);
  if (ms === undefined) query.refuse(name, instantOrDateForms);
  return ms;
}

function idsIn(query: QueryReader): readonly string[] {
  // An id may hold commas.
  const ids = query.all("ids");
  if (ids.length > maxIds || ids.some((id) => idOf(id) === undefined)) {
    query.refuse("ids", `must be at most ${maxIds} ids of records`);
  }
  return ids;
}

function readPrune(body: JsonObject) {
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const fields = readFields(body, { path: [], findings });
  const model = fields.requiredText("model");
  const variant = fields.text("variant") ?? "";
  const until = fields.requiredText("until_cursor");
  const named = fields.has("limit") ? body["limit"] : undefined;
  const limit = named ?? defaultPruned;
  if (typeof limit !== "number" || !Number.isInteger(limit) || limit < 1 || limit > maxPruned) {
    fields.refuse("limit", `must be a whole number from 1 to ${maxPruned}`);
  }
  fields.ignoreRest();
  if (findings.mistakes.length > 0) {
    throw new Fault("invalid_body", "the records cannot be pruned", { mistakes: findings.mistakes });
  }
  return { model, variant, until, limit: Number(limit), ignored: findings.ignored.length };
}
