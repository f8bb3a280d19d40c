import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { type JsonFields, type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { baseVariant } from "../../core/scripts/sync-state.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { TriggerSyncRequest_Mode as Mode, Run_State, type Sync, Sync_State } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerIn, type Route, type RouteAnswer, type RouteRequest } from "../server/routes.ts";

/** Enough for any integration; longer lists are mistakes. */
const maxNames = 1_000;
const maxConnections = 1_000;
const done: RouteAnswer = { status: 200, body: { success: true } };

/** Routes that the SDK uses for syncs. */
export function syncRoutes({ syncs, scripts, countIgnored }: Broker): Route[] {
  /** Reads a body with `read`, and refuses the body with all its mistakes. */
  function reading<T>(route: string, request: RouteRequest, read: (fields: JsonFields) => T): T {
    request.query.end();
    const findings: ReadingNotes = { mistakes: [], ignored: [] };
    const fields = readFields(request.body, { path: [], findings });
    const value = read(fields);
    fields.ignoreRest();
    if (findings.mistakes.length > 0) {
      throw new Fault("invalid_body", "the syncs are not well named", { mistakes: findings.mistakes });
    }
    countIgnored(route, findings.ignored.length);
    return value;
  }

  function named(fields: JsonFields, { body, headers }: RouteRequest) {
    const key = fields.text("provider_config_key") || textOf(headers["provider-config-key"]);
    const connectionId = fields.text("connection_id") || textOf(headers["connection-id"]);
    if (key === "") fields.refuse("provider_config_key", "is required");
    fields.has("syncs");
    const names = namesIn(body["syncs"]);
    if (names === undefined) {
      fields.refuse("syncs", `must be an array of at most ${maxNames} names, or of objects with a name and a variant`);
    }
    return { integration: key, connectionId, names: names ?? [] };
  }

  async function each(
    request: RouteRequest,
    at: { readonly integration: string; readonly connectionId: string; readonly names: readonly string[] },
    act: (place: { readonly ref: ConnectionRef; readonly name: string; readonly variant: string }) => Promise<unknown>,
  ): Promise<RouteAnswer> {
    const { environment } = callerIn(request);
    const { integration, connectionId, names } = at;
    const of = syncs.named(integration, names);
    const ids = connectionId === "" ? await connectionsWith({ environment, integration }) : [connectionId];
    for (const id of ids) {
      const ref = create(ConnectionRefSchema, { environment, integration, id });
      for (const { script, variant } of of) await act({ ref, name: script.name, variant });
    }
    return done;
  }

  /** Without a named connection, returns all connections that have a sync of the integration. */
  async function connectionsWith(at: {
    readonly environment: string;
    readonly integration: string;
  }): Promise<string[]> {
    const found = await syncs.list({ ...at, connectionId: "", names: [] }, { size: maxConnections, token: "" });
    if (found.next !== "") {
      const message = `name a connection: more than ${maxConnections} have syncs of this integration`;
      throw new Fault("invalid_body", message, { mistakes: [{ path: ["connection_id"], message: "is required" }] });
    }
    return [...new Set(found.items.map(({ ref }) => ref?.connection?.id ?? ""))];
  }

  return [
    {
      method: "POST",
      path: "/sync/trigger",
      scope: Scope.SYNCS,
      takesBody: true,
      async answer(request) {
        const { environment, actor } = callerIn(request);
        const asked = reading("/sync/trigger", request, (fields) => ({
          ...named(fields, request),
          mode: modeIn(fields, request.body),
        }));
        await syncs.trigger({ environment, ...asked }, actor);
        return done;
      },
    },
    {
      method: "POST",
      path: "/sync/start",
      scope: Scope.SYNCS,
      takesBody: true,
      answer(request) {
        const { actor } = callerIn(request);
        const at = reading("/sync/start", request, (fields) => named(fields, request));
        return each(request, at, (place) => syncs.start({ ...place, expectedRevision: 0n }, actor));
      },
    },
    {
      method: "POST",
      path: "/sync/pause",
      scope: Scope.SYNCS,
      takesBody: true,
      answer(request) {
        const { actor } = callerIn(request);
        const at = reading("/sync/pause", request, (fields) => named(fields, request));
        return each(request, at, (place) => syncs.pause({ ...place, expectedRevision: 0n }, actor));
      },
    },
    {
      method: "GET",
      path: "/sync/status",
      scope: Scope.CONNECTIONS_READ,
      async answer(request) {
        const { environment } = callerIn(request);
        const { query } = request;
        const integration = query.text("provider_config_key") ?? "";
        const connectionId = query.text("connection_id") ?? "";
        const names = query.list("syncs");
        if (integration === "") query.refuse("provider_config_key", "is required");
        query.end();
        const filter = { environment, integration, connectionId, names: names.includes("*") ? [] : names };
        const { items } = await syncs.list(filter, { size: maxConnections, token: "" });
        return { status: 200, body: { syncs: items.map((sync) => statusOf(sync, scripts)) } };
      },
    },
    {
      method: "PUT",
      path: "/sync/update-connection-frequency",
      scope: Scope.SYNCS,
      takesBody: true,
      async answer(request) {
        const { environment, actor } = callerIn(request);
        const asked = reading("/sync/update-connection-frequency", request, (fields) => ({
          integration: fields.requiredText("provider_config_key"),
          id: fields.requiredText("connection_id"),
          name: fields.requiredText("sync_name"),
          variant: fields.text("sync_variant") || baseVariant,
          frequency: fields.text("frequency") ?? "",
        }));
        const { integration, id, name, variant, frequency } = asked;
        const ref = create(ConnectionRefSchema, { environment, integration, id });
        const sync = await syncs.setFrequency({ ref, name, variant, frequency, expectedRevision: 0n }, actor);
        return { status: 200, body: { frequency: sync.frequency } };
      },
    },
    ...(["POST", "DELETE"] as const).map(
      (method): Route => ({
        method,
        path: "/sync/:name/variant/:variant",
        scope: Scope.SYNCS,
        takesBody: true,
        async answer(request) {
          const { environment, actor } = callerIn(request);
          const { name = "", variant = "" } = request.params;
          const { integration, id } = reading("/sync/:name/variant/:variant", request, (fields) => ({
            integration: fields.requiredText("provider_config_key"),
            id: fields.requiredText("connection_id"),
          }));
          const place = { ref: create(ConnectionRefSchema, { environment, integration, id }), name, variant };
          if (method === "DELETE") {
            await syncs.removeVariant(place, actor);
            return done;
          }
          const sync = await syncs.addVariant(place, actor);
          return { status: 200, body: { id: syncId(sync), name, variant } };
        },
      }),
    ),
  ];
}

const textOf = (header: string | string[] | undefined): string => (typeof header === "string" ? header : "");

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

const modes: ReadonlyMap<string, Mode> = new Map([
  ["incremental", Mode.INCREMENTAL],
  ["full_refresh", Mode.FULL_REFRESH],
  ["full_refresh_and_clear_cache", Mode.FULL_REFRESH_AND_CLEAR_CACHE],
]);

/** Reads `sync_mode`, or `opts` or `full_resync` from older SDKs. */
function modeIn(fields: JsonFields, body: JsonObject): Mode {
  const text = fields.text("sync_mode");
  const opts = fields.json("opts");
  fields.has("full_resync");
  if (text !== undefined) {
    const mode = modes.get(text);
    if (mode === undefined) fields.refuse("sync_mode", `must be one of ${[...modes.keys()].join(", ")}`);
    return mode ?? Mode.UNSPECIFIED;
  }
  if (opts?.["emptyCache"] === true) return Mode.FULL_REFRESH_AND_CLEAR_CACHE;
  return opts?.["reset"] === true || body["full_resync"] === true ? Mode.FULL_REFRESH : Mode.INCREMENTAL;
}

const syncId = ({ ref }: Sync): string => {
  const { integration = "", id = "" } = ref?.connection ?? {};
  return [integration, id, ref?.name, ref?.variant].join("/");
};

function statusOf(sync: Sync, scripts: Broker["scripts"]): JsonObject {
  const { ref, latestRun, nextRunAt, frequency, recordCounts, checkpoint } = sync;
  const { name = "", variant = "", connection } = ref ?? {};
  const script = scripts.find({ integration: connection?.integration ?? "", kind: "sync", name });
  const { startedAt, duration } = latestRun ?? {};
  const tookMs = duration === undefined ? undefined : Number(duration.seconds) * 1_000 + duration.nanos / 1e6;
  const endedMs =
    startedAt === undefined || tookMs === undefined ? undefined : timestampDate(startedAt).getTime() + tookMs;
  return {
    id: syncId(sync),
    connection_id: connection?.id ?? "",
    name,
    variant,
    type:
      latestRun?.cause === "webhook"
        ? "WEBHOOK"
        : script?.kind === "sync" && script.syncType === "full"
          ? "FULL"
          : "INCREMENTAL",
    status: statusName(sync),
    frequency,
    finishedAt: endedMs === undefined ? null : new Date(endedMs).toISOString(),
    nextScheduledSyncAt: nextRunAt === undefined ? null : timestampDate(nextRunAt).toISOString(),
    latestResult: Object.fromEntries(
      Object.entries(latestRun?.counts ?? {}).map(([model, { added, updated, deleted }]) => [
        model,
        { added: Number(added), updated: Number(updated), deleted: Number(deleted) },
      ]),
    ),
    recordCount: Object.fromEntries(Object.entries(recordCounts).map(([model, count]) => [model, Number(count)])),
    checkpoint: checkpoint ?? null,
  };
}

function statusName({ state, latestRun }: Sync): string {
  if (state === Sync_State.RUNNING) return "RUNNING";
  if (state === Sync_State.PAUSED) return "PAUSED";
  if (state === Sync_State.FAILED) return "ERROR";
  return latestRun?.state === Run_State.SUCCEEDED ? "SUCCESS" : "STOPPED";
}
