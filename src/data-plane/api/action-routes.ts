import { create, type JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import { type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerIn, type Route, type RouteRequest } from "../server/routes.ts";

/** Routes that run actions, synchronously or not. */
export function actionRoutes({ actions, runs, countIgnored }: Broker): Route[] {
  return [
    {
      method: "POST",
      path: "/action/trigger",
      scope: Scope.SYNCS,
      takesBody: true,
      async answer(request) {
        const ref = connectionIn(request);
        request.query.end();
        const findings: ReadingNotes = { mistakes: [], ignored: [] };
        const fields = readFields(request.body, { path: [], findings });
        const name = fields.requiredText("action_name");
        fields.has("input");
        const input: JsonValue | undefined = request.body["input"];
        fields.ignoreRest();
        if (findings.mistakes.length > 0) {
          throw new Fault("invalid_body", "the action is not well named", { mistakes: findings.mistakes });
        }
        countIgnored("/action/trigger", findings.ignored.length);
        const asked = { ref, name, input };
        if (request.headers["x-async"] === "true") {
          const { id } = await actions.begin(asked);
          return { status: 202, body: { id, statusUrl: `/action/${id}` } };
        }
        const { run, outcome } = await actions.run(asked);
        if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
        return { status: 200, body: outcome.output ?? null };
      },
    },
    {
      method: "GET",
      path: "/action/:id",
      scope: Scope.SYNCS,
      async answer(request) {
        const { environment } = callerIn(request);
        request.query.end();
        const run = await runs.get({ environment, id: request.params["id"] ?? "" });
        switch (run.state) {
          case Run_State.SUCCEEDED:
            return { status: 200, body: (await runs.outputOf({ environment, id: run.id })) ?? null };
          case Run_State.QUEUED:
          case Run_State.RUNNING:
            // The peer product has no such answer: without a result the action is not found.
            throw new Fault("not_found", "the action has not ended yet");
          default:
            throw faultOfAction(await runs.failureOf(run, environment), run.id);
        }
      },
    },
  ];
}

/** Returns the connection that two headers name. */
export function connectionIn(request: RouteRequest): ConnectionRef {
  const { environment } = callerIn(request);
  const integration = request.headers["provider-config-key"];
  const id = request.headers["connection-id"];
  if (typeof integration !== "string" || integration === "")
    throw new Fault("invalid_headers", "name the integration: Provider-Config-Key: <key>");
  if (typeof id !== "string" || id === "")
    throw new Fault("invalid_headers", "name the connection: Connection-Id: <id>");
  return create(ConnectionRefSchema, { environment, integration, id });
}
