import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireConnectionWithin, requireScriptsWithin, spendRequest, starterOf } from "../../broker/setup/caller.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import { connectionIn } from "../proxy/forwarding/connection-headers.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { inBody } from "./body-fields.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";

const triggerBody = { action_name: inBody.requiredText, input: inBody.any };

/** Routes that run actions, synchronously or not. */
export const actionRoutes: readonly JsonRoute[] = [
  jsonRoute({
    method: "POST",
    path: "/action/trigger",
    scope: Scope.SYNCS,
    body: triggerBody,
    takesLimited: true,
    handle: triggerAction,
  }),
  jsonRoute({ method: "GET", path: "/action/:id", scope: Scope.SYNCS, takesLimited: true, handle: getOutput }),
];

async function triggerAction(
  request: JsonRequest<NoFields, typeof triggerBody>,
  { actions }: Broker,
): Promise<RouteAnswer> {
  const { action_name: name, input } = request.body;
  const ref = connectionIn(request);
  requireConnectionWithin(request.caller, ref);
  requireScriptsWithin(request.caller);
  await spendRequest(request.caller);
  const action = { ref, name, input, starter: starterOf(request.caller) };
  if (request.headers["x-async"] === "true") {
    const { id } = await actions.begin(action);
    return { status: 202, body: { id, statusUrl: `/action/${id}` } };
  }
  const { run, outcome } = await actions.run(action);
  if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
  return { status: 200, body: outcome.output ?? null };
}

async function getOutput({ environment, params, caller }: JsonRequest, { runs }: Broker): Promise<RouteAnswer> {
  // A limited caller sees only its own runs, although it may use the connection.
  const starter = caller.limits === undefined ? undefined : starterOf(caller);
  const run = await runs.get({ environment, id: params["id"] ?? "" }, starter);
  requireConnectionWithin(caller, run.connection ?? { integration: "", id: "" });
  switch (run.state) {
    case Run_State.SUCCEEDED:
      return { status: 200, body: (await runs.outputOf({ environment, id: run.id })) ?? null };
    case Run_State.QUEUED:
    case Run_State.RUNNING:
      // The peer product has no such answer: without a result the action is not found.
      throw new Fault("not_found", "the action is still running");
    default:
      throw faultOfAction(await runs.failureOf(run, environment), run.id);
  }
}
