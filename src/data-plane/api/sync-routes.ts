import type { IncomingHttpHeaders } from "node:http";
import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { baseVariant } from "../../core/scripts/sync-state.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { TriggerSyncRequest_Mode as Mode } from "../../gen/latchkey/v1/sync_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type BodyField, inBody, type RefuseField } from "./body-fields.ts";
import type { ValuesOf } from "./field-shape.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";
import { syncId, syncJson } from "./sync-json.ts";

/** Enough for any integration; longer lists are mistakes. */
const maxNames = 1_000;
const maxConnections = 1_000;

const syncNames: BodyField<string[]> = {
  type: "array",
  items: { type: "string", description: "a name, `name::variant`, or an object with a name and a variant" },
  maxItems: maxNames,
  read(fields, name) {
    const names = namesIn(fields.raw(name));
    if (names === undefined) {
      fields.refuse(name, `must be an array of at most ${maxNames} names, or of objects with a name and a variant`);
    }
    return names ?? [];
  },
};

/** The headers `Provider-Config-Key` and `Connection-Id` stand in for the first two. */
const namedSyncs = {
  provider_config_key: inBody.text,
  connection_id: inBody.text,
  syncs: syncNames,
};
const triggerBody = {
  ...namedSyncs,
  sync_mode: inBody.choice("incremental", "full_refresh", "full_refresh_and_clear_cache"),
  // Older SDKs send one of these.
  opts: inBody.json,
  full_resync: inBody.any,
};
const statusQuery = {
  provider_config_key: inQuery.requiredText,
  connection_id: inQuery.text,
  syncs: inQuery.list,
};
const frequencyBody = {
  provider_config_key: inBody.requiredText,
  connection_id: inBody.requiredText,
  sync_name: inBody.requiredText,
  sync_variant: inBody.text,
  frequency: inBody.text,
};
const variantBody = { provider_config_key: inBody.requiredText, connection_id: inBody.requiredText };

const syncs = { scope: Scope.SYNCS } as const;
const checkBody = requireIntegration;
const variantPath = "/sync/:name/variant/:variant";

/** Routes that the SDK uses for syncs. */
export const syncRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...syncs, method: "POST", path: "/sync/trigger", body: triggerBody, checkBody, handle: triggerSyncs }),
  jsonRoute({ ...syncs, method: "POST", path: "/sync/start", body: namedSyncs, checkBody, handle: startSyncs }),
  jsonRoute({ ...syncs, method: "POST", path: "/sync/pause", body: namedSyncs, checkBody, handle: pauseSyncs }),
  jsonRoute({
    method: "GET",
    path: "/sync/status",
    scope: Scope.CONNECTIONS_READ,
    query: statusQuery,
    handle: listSyncs,
  }),
  jsonRoute({
    ...syncs,
    method: "PUT",
    path: "/sync/update-connection-frequency",
    body: frequencyBody,
    handle: setFrequency,
  }),
  jsonRoute({ ...syncs, method: "POST", path: variantPath, body: variantBody, handle: addVariant }),
  jsonRoute({ ...syncs, method: "DELETE", path: variantPath, body: variantBody, handle: removeVariant }),
];

const done: RouteAnswer = { status: 200, body: { success: true } };

async function triggerSyncs(request: JsonRequest<NoFields, typeof triggerBody>, broker: Broker): Promise<RouteAnswer> {
  const { environment, actor, body } = request;
  await broker.syncs.trigger({ environment, ...namesOf(request), mode: modeOf(body) }, actor);
  return done;
}

function startSyncs(request: JsonRequest<NoFields, typeof namedSyncs>, broker: Broker): Promise<RouteAnswer> {
  const { actor } = request;
  return forEachSync(request, broker, (sync) => broker.syncs.start({ ...sync, expectedRevision: 0n }, actor));
}

function pauseSyncs(request: JsonRequest<NoFields, typeof namedSyncs>, broker: Broker): Promise<RouteAnswer> {
  const { actor } = request;
  return forEachSync(request, broker, (sync) => broker.syncs.pause({ ...sync, expectedRevision: 0n }, actor));
}

async function listSyncs(
  { environment, query }: JsonRequest<typeof statusQuery>,
  { syncs, scripts }: Broker,
): Promise<RouteAnswer> {
  const { provider_config_key: integration, connection_id: connectionId, syncs: names } = query;
  const filter = { environment, integration, connectionId, names: names.includes("*") ? [] : names };
  const { items } = await syncs.list(filter, { size: maxConnections, token: "" });
  return { status: 200, body: { syncs: items.map((sync) => syncJson(sync, scripts)) } };
}

async function setFrequency(
  request: JsonRequest<NoFields, typeof frequencyBody>,
  { syncs }: Broker,
): Promise<RouteAnswer> {
  const { actor, body } = request;
  const { sync_name: name, sync_variant: variant, frequency = "" } = body;
  const change = { ref: refOf(request), name, variant: variant || baseVariant, frequency, expectedRevision: 0n };
  const sync = await syncs.setFrequency(change, actor);
  return { status: 200, body: { frequency: sync.frequency } };
}

async function addVariant(request: JsonRequest<NoFields, typeof variantBody>, { syncs }: Broker): Promise<RouteAnswer> {
  const { name = "", variant = "" } = request.params;
  const sync = await syncs.addVariant({ ref: refOf(request), name, variant }, request.actor);
  return { status: 200, body: { id: syncId(sync), name, variant } };
}

async function removeVariant(
  request: JsonRequest<NoFields, typeof variantBody>,
  { syncs }: Broker,
): Promise<RouteAnswer> {
  const { name = "", variant = "" } = request.params;
  await syncs.removeVariant({ ref: refOf(request), name, variant }, request.actor);
  return done;
}

function refOf({ environment, body }: JsonRequest<NoFields, typeof variantBody>): ConnectionRef {
  const { provider_config_key: integration, connection_id: id } = body;
  return create(ConnectionRefSchema, { environment, integration, id });
}

type NamedSyncs = Pick<JsonRequest<NoFields, typeof namedSyncs>, "body" | "headers">;

function namesOf({ body, headers }: NamedSyncs) {
  const integration = body.provider_config_key || headerText(headers["provider-config-key"]);
  const connectionId = body.connection_id || headerText(headers["connection-id"]);
  return { integration, connectionId, names: body.syncs };
}

function requireIntegration(
  body: ValuesOf<typeof namedSyncs>,
  refuse: RefuseField,
  headers: IncomingHttpHeaders,
): void {
  if (namesOf({ body, headers }).integration === "") refuse("provider_config_key", "is required");
}

const headerText = (header: string | string[] | undefined): string => (typeof header === "string" ? header : "");

interface SyncTarget {
  readonly ref: ConnectionRef;
  readonly name: string;
  readonly variant: string;
}

/** Calls `act` for each named sync of the named connection, or of all connections that have syncs. */
async function forEachSync(
  request: JsonRequest<NoFields, typeof namedSyncs>,
  { syncs }: Broker,
  act: (sync: SyncTarget) => Promise<unknown>,
): Promise<RouteAnswer> {
  const { environment } = request;
  const { integration, connectionId, names } = namesOf(request);
  const named = syncs.named(integration, names);
  const ids = connectionId === "" ? await connectionsWithSyncs(syncs, { environment, integration }) : [connectionId];
  for (const id of ids) {
    const ref = create(ConnectionRefSchema, { environment, integration, id });
    for (const { script, variant } of named) await act({ ref, name: script.name, variant });
  }
  return done;
}

/** Returns the ids of all connections that have a sync of the integration. */
async function connectionsWithSyncs(
  syncs: Broker["syncs"],
  at: { readonly environment: string; readonly integration: string },
): Promise<string[]> {
  const found = await syncs.list({ ...at, connectionId: "", names: [] }, { size: maxConnections, token: "" });
  if (found.next !== "") {
    const message = `name a connection: more than ${maxConnections} have syncs of this integration`;
    throw new Fault("invalid_body", message, { mistakes: [{ path: ["connection_id"], message: "is required" }] });
  }
  return [...new Set(found.items.map(({ ref }) => ref?.connection?.id ?? ""))];
}

/** Reads `name` or `name::variant`; undefined: not a list of names. */
function namesIn(given: JsonValue | undefined): string[] | undefined {
  if (given === undefined || given === null) return [];
  if (!Array.isArray(given) || given.length > maxNames) return undefined;
  const names = given.map((one) => {
    if (typeof one === "string") return one;
    if (typeof one !== "object" || one === null || Array.isArray(one)) return "";
    const { name, variant } = one;
    if (typeof name !== "string") return "";
    return typeof variant === "string" ? `${name}::${variant}` : name;
  });
  return names.includes("") ? undefined : names;
}

const modes = {
  incremental: Mode.INCREMENTAL,
  full_refresh: Mode.FULL_REFRESH,
  full_refresh_and_clear_cache: Mode.FULL_REFRESH_AND_CLEAR_CACHE,
} as const;

/** Returns the mode by `sync_mode`, or by `opts` or `full_resync` of older SDKs. */
function modeOf({ sync_mode: mode, opts, full_resync: fullResync }: ValuesOf<typeof triggerBody>): Mode {
  if (mode !== undefined) return modes[mode];
  const { emptyCache, reset } = (opts ?? {}) as JsonObject;
  if (emptyCache === true) return Mode.FULL_REFRESH_AND_CLEAR_CACHE;
  return reset === true || fullResync === true ? Mode.FULL_REFRESH : Mode.INCREMENTAL;
}
