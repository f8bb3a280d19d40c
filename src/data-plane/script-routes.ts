import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import { faultOfAction } from "../broker/actions.ts";
import type { Broker } from "../broker/broker.ts";
import type { ActionScript, Script, SyncScript } from "../core/script.ts";
import { Scope } from "../gen/latchkey/v1/access_pb.ts";
import { TriggerSyncRequest_Mode as Mode, Run_State } from "../gen/latchkey/v1/sync_pb.ts";
import { connectionIn } from "./action-routes.ts";
import { type Answer, callerIn, type Method, type Route, type RouteRequest } from "./routes.ts";

/** A caller of a sync's own route waits for it so long, and then hears that it goes on. */
const waitMs = 30_000;
const lookEveryMs = 100;

/** What the SDK asks of scripts. */
export function scriptRoutes({ scripts, variables }: Broker): Route[] {
  return [
    {
      method: "GET",
      path: "/environment-variables",
      // They may be secrets.
      scope: Scope.CREDENTIALS_READ,
      answer(request) {
        const { environment } = callerIn(request);
        request.query.end();
        return { status: 200, body: variables.of(environment) };
      },
    },
    {
      method: "GET",
      path: "/scripts/config",
      scope: Scope.CONNECTIONS_READ,
      answer(request) {
        callerIn(request);
        request.query.text("format");
        request.query.end();
        const byIntegration = Map.groupBy(scripts.all(), ({ integration }) => integration);
        const body = [...byIntegration].map(([providerConfigKey, all]) => ({
          providerConfigKey,
          syncs: all.filter((script) => script.kind === "sync").map(syncConfig),
          actions: all.filter((script) => script.kind === "action").map(actionConfig),
          "on-events": Object.fromEntries(
            Map.groupBy(
              all.filter((script) => script.kind === "event"),
              ({ event }) => event,
            )
              .entries()
              .map(([event, hooks]) => [event, hooks.map(({ name }) => name)]),
          ),
        }));
        return { status: 200, body };
      },
    },
  ];
}

/** The routes that scripts declare, of several integrations perhaps the same. Asked for when there is no other. */
export function declaredRoutes(broker: Broker, path: string): Route[] {
  const declaring = broker.scripts
    .all()
    .filter((script): script is Declaring => script.kind !== "event")
    .flatMap((script) => script.endpoints.filter((one) => one.path === path).map(({ method }) => ({ method, script })));
  return [...Map.groupBy(declaring, ({ method }) => method)].map(([method, found]) =>
    declaredRoute(
      broker,
      method,
      found.map(({ script }) => script),
    ),
  );
}

type Declaring = SyncScript | ActionScript;

function declaredRoute({ syncs, actions, runs }: Broker, method: Method, owners: readonly Declaring[]): Route {
  return {
    method,
    path: "(script)",
    scope: Scope.SYNCS,
    ...(method === "GET" || method === "DELETE" ? {} : { takesBody: true as const }),
    async answer(request) {
      const ref = connectionIn(request);
      const script = owners.find(({ integration }) => integration === ref.integration);
      if (script === undefined) {
        throw new Fault("not_found", `the integration "${ref.integration}" has no script of this route`);
      }
      if (script.kind === "sync") return runSync(script, request);
      const { run, outcome } = await actions.run({ ref, name: script.name, input: inputOf(request, method) });
      if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
      return { status: 200, body: outcome.output ?? null };
    },
  };

  async function runSync({ name }: SyncScript, request: RouteRequest): Promise<Answer> {
    const { environment, integration, id: connectionId } = connectionIn(request);
    request.query.end();
    const { actor } = callerIn(request);
    const asked = { environment, integration, connectionId, names: [name], mode: Mode.INCREMENTAL };
    const [id = ""] = await syncs.trigger(asked, actor);
    for (const since = performance.now(); performance.now() - since < waitMs; await sleep(lookEveryMs)) {
      const run = await runs.get({ environment, id });
      if (run.state === Run_State.QUEUED || run.state === Run_State.RUNNING) continue;
      return { status: 200, body: { success: run.state === Run_State.SUCCEEDED, run_id: id } };
    }
    return { status: 202, body: { run_id: id } };
  }
}

/** What an action of a route is given: the body, or of a request without one the query. */
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

const common = ({ name, version, description, metadata }: Script) => ({
  name,
  version,
  description,
  enabled: true,
  json_schema: metadata ?? null,
});

const syncConfig = (script: SyncScript): JsonObject => ({
  ...common(script),
  type: "sync",
  runs: script.frequency,
  sync_type: script.syncType,
  auto_start: script.autoStart,
  track_deletes: script.trackDeletes,
  returns: Object.keys(script.models),
  models: Object.entries(script.models).map(([name, schema]) => ({ name, schema })),
  endpoints: script.endpoints.map(({ method, path }) => ({ method, path })),
  webhookSubscriptions: [...script.webhookSubscriptions],
});

const actionConfig = (script: ActionScript): JsonObject => ({
  ...common(script),
  type: "action",
  input: script.input ?? null,
  output: script.output ?? null,
  endpoints: script.endpoints.map(({ method, path }) => ({ method, path })),
});
