import { setTimeout as sleep } from "node:timers/promises";
import type { JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireScope } from "../../broker/setup/caller.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import type { ActionScript, SyncScript } from "../../core/scripts/script.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { TriggerSyncRequest_Mode as Mode, Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import { connectionIn } from "../proxy/forwarding/connection-headers.ts";
import { callerIn, type Method, type Route, type RouteAnswer, type RouteRequest } from "../server/routes.ts";
import { readQueryValues } from "./query-fields.ts";
import { recordFilter, recordQuery } from "./record-query.ts";
import { recordsAnswer } from "./record-routes.ts";

/**
 * Limits how long the caller of a sync's own route waits for the run; then the response says that the run continues.
 */
const waitMs = 30_000;
const lookEveryMs = 100;

type Declaring = SyncScript | ActionScript;

/** GET of a sync with models lists the records of one model, as in the peer product. */
interface RecordList {
  readonly kind: "records";
  readonly script: SyncScript;
  readonly model: string;
}

/** The service of a script on a route that the script declares. */
type ScriptService =
  | RecordList
  | { readonly kind: "action"; readonly script: ActionScript }
  | { readonly kind: "trigger"; readonly script: SyncScript };

interface DeclaredRoute {
  readonly method: Method;
  readonly served: ScriptService;
}

/**
 * Returns the routes that scripts declare; several integrations may declare the same one. Used only if no built-in
 * route matches.
 */
export function declaredRoutes(broker: Broker, path: string): Route[] {
  const scripts = broker.scripts.all().filter((script): script is Declaring => script.kind !== "event");
  const declared = scripts.flatMap((script) => declaredBy(script, path));
  const taken = new Set(declared.map(({ method, served }) => `${method} ${served.script.integration}`));
  // POST to the same path runs such a sync, unless a script of the integration declares that POST itself.
  const triggers = declared.flatMap(({ served }): DeclaredRoute[] => {
    if (served.kind !== "records" || taken.has(`POST ${served.script.integration}`)) return [];
    return [{ method: "POST", served: { kind: "trigger", script: served.script } }];
  });
  const byMethod = Map.groupBy([...declared, ...triggers], ({ method }) => method);
  return [...byMethod].map(([method, found]) =>
    declaredRoute(
      broker,
      method,
      found.map(({ served }) => served),
    ),
  );
}

function declaredBy(script: Declaring, path: string): DeclaredRoute[] {
  return script.endpoints.flatMap((endpoint, at): DeclaredRoute[] => {
    const { method } = endpoint;
    if (endpoint.path !== path) return [];
    if (script.kind === "action") return [{ method, served: { kind: "action", script } }];
    const models = Object.keys(script.models);
    // Endpoints and models are paired by position.
    const model = models[at] ?? models[0];
    if (method !== "GET" || model === undefined) return [{ method, served: { kind: "trigger", script } }];
    return [{ method, served: { kind: "records", script, model } }];
  });
}

function declaredRoute(broker: Broker, method: Method, owners: readonly ScriptService[]): Route {
  const isOfSyncs = owners.every(({ kind }) => kind !== "action");
  const areRecords = owners.every(({ kind }) => kind === "records");
  return {
    method,
    path: "(script)",
    scope: areRecords ? Scope.CONNECTIONS_READ : Scope.SYNCS,
    ...(method === "GET" || method === "DELETE"
      ? {}
      : { takesBody: isOfSyncs ? ("optional" as const) : (true as const) }),
    ...(method === "GET" && !areRecords ? { changesState: true as const } : {}),
    async answer(request) {
      const ref = requestedConnection(request);
      const served = owners.find(({ script }) => script.integration === ref.integration);
      if (served === undefined) {
        throw new Fault("not_found", `the integration "${ref.integration}" has no script for this route`);
      }
      if (served.kind === "records") return listRecords(broker, served, request);
      if (served.kind === "trigger") return runSync(broker, served.script, request);
      const input = inputOf(request, method);
      const { run, outcome } = await broker.actions.run({ ref, name: served.script.name, input });
      if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
      return { status: 200, body: outcome.output ?? null };
    },
  };
}

const recordParameters = "model, variant, cursor, limit, modified_after, filter and ids";

async function listRecords(
  { records }: Broker,
  { script, model: usual }: RecordList,
  request: RouteRequest,
): Promise<RouteAnswer> {
  requireScope(callerIn(request).caller, Scope.CONNECTIONS_READ);
  const { query } = request;
  const models = Object.keys(script.models);
  const model = query.text("model") ?? usual;
  if (!models.includes(model)) query.refuse("model", `must be one of the sync's models: ${models.join(", ")}`);
  const values = readQueryValues(recordQuery, query);
  query.refuseRest(`is unknown: this route lists records and takes ${recordParameters}`);
  query.end();
  const connection = requestedConnection(request);
  const page = await records.list({ connection, model, variant: values.variant }, recordFilter(values));
  return recordsAnswer(page);
}

async function runSync({ syncs, runs }: Broker, { name }: SyncScript, request: RouteRequest): Promise<RouteAnswer> {
  const { environment, integration, id: connectionId } = requestedConnection(request);
  const { query, body } = request;
  query.refuseRest("is unknown: this route runs a sync and takes no parameters");
  query.end();
  const given = Object.keys(body);
  if (given.length > 0) {
    const message = "is unknown: this route runs the sync without options; POST /sync/trigger takes a mode";
    const mistakes = given.map((key) => ({ path: [key], message }));
    throw new Fault("invalid_body", "the body must be empty: this route runs a sync", { mistakes });
  }
  const { actor } = callerIn(request);
  const trigger = { environment, integration, connectionId, names: [name], mode: Mode.INCREMENTAL };
  const [id = ""] = await syncs.trigger(trigger, actor);
  for (const since = performance.now(); performance.now() - since < waitMs; await sleep(lookEveryMs)) {
    const run = await runs.get({ environment, id });
    if (run.state === Run_State.QUEUED || run.state === Run_State.RUNNING) continue;
    return { status: 200, body: { success: run.state === Run_State.SUCCEEDED, run_id: id } };
  }
  return { status: 202, body: { run_id: id } };
}

const requestedConnection = (request: RouteRequest) =>
  connectionIn({ environment: callerIn(request).environment, headers: request.headers });

/** Returns an action's input: the body, or for a request without a body the query. */
function inputOf({ query, rawQuery, body }: RouteRequest, method: string): JsonValue | undefined {
  if (method !== "GET" && method !== "DELETE") {
    query.end();
    return body;
  }
  const params = new URLSearchParams(rawQuery);
  for (const name of new Set(params.keys())) query.text(name);
  query.end();
  return params.size === 0 ? undefined : Object.fromEntries(params);
}
