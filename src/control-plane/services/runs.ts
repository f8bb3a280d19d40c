import { create, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireScriptsWithin, spendRequest, starterOf } from "../../broker/setup/caller.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import type { RunStep } from "../../broker/syncs/runs/run-console.ts";
import { withOutput } from "../../broker/syncs/runs/run-results.ts";
import type { RunFilter } from "../../broker/syncs/runs/runs.ts";
import { runOf } from "../../core/scripts/sync-state.ts";
import {
  type SyncService,
  type WatchRunResponse,
  WatchRunResponse_ElsewhereSchema,
  WatchRunResponse_LinesSchema,
} from "../../gen/latchkey/v1/sync_pb.ts";
import { callerOf, connectionRefOf, pageOf } from "../server/context.ts";
import { pauseOf } from "../server/watch.ts";

type RunMethods = Pick<
  ServiceImpl<typeof SyncService>,
  "listRuns" | "getRun" | "watchRuns" | "watchRun" | "cancelRun" | "runAction"
>;

/** The methods of the sync service for runs of scripts, actions included. */
export const runMethods = ({ runs, watchRun, actions, environments, feeds }: Broker): RunMethods => ({
  async listRuns({ environment: requested, integration, connectionId, script, states, ...request }, context) {
    requireIntegration({ integration, connectionId });
    const environment = await environments.of(callerOf(context), requested);
    const filter = { environment, integration, connectionId, script, states };
    const { items, next } = await runs.list(filter, pageOf(request));
    return { runs: [...items], nextPageToken: next };
  },
  async getRun({ environment: requested, id }, context) {
    return { run: await runs.get({ environment: await environments.of(callerOf(context), requested), id }) };
  },
  async *watchRuns({ environment: requested, ...filter }, context) {
    requireIntegration(filter);
    const environment = await environments.of(callerOf(context), requested);
    for await (const step of feeds.runs({ ...filter, environment }, context.signal)) {
      yield { event: step.kind === "put" ? { case: "run" as const, value: runOf(step.value) } : pauseOf(step) };
    }
  },
  async *watchRun({ environment: requested, id }, context) {
    const environment = await environments.of(callerOf(context), requested);
    for await (const step of watchRun({ environment, id }, context.signal)) yield { event: eventOf(step) };
  },
  async cancelRun({ environment: requested, id }, context) {
    const caller = callerOf(context);
    return { run: await runs.cancel({ environment: await environments.of(caller, requested), id }, caller.keyId) };
  },
  async runAction({ connection, name, input: given, async: isAsync }, context) {
    const ref = await connectionRefOf(environments, connection, context);
    const caller = callerOf(context);
    requireScriptsWithin(caller);
    await spendRequest(caller);
    const input = given === undefined ? undefined : toJson(ValueSchema, given);
    const action = { ref, name, input, starter: starterOf(caller) };
    if (isAsync) return { run: await actions.begin(action) };
    const { run, outcome } = await actions.run(action, { signal: context.signal });
    if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
    return { run: withOutput(run, outcome.output) };
  },
});

function eventOf(step: RunStep): WatchRunResponse["event"] {
  if (step.kind === "run") return { case: "run", value: step.run };
  if (step.kind === "lines") {
    return { case: "lines", value: create(WatchRunResponse_LinesSchema, { lines: [...step.lines] }) };
  }
  if (step.kind === "elsewhere") return { case: "elsewhere", value: create(WatchRunResponse_ElsewhereSchema) };
  return pauseOf(step);
}

function requireIntegration({ integration, connectionId }: Pick<RunFilter, "integration" | "connectionId">) {
  if (connectionId === "" || integration !== "") return;
  const message = "must be given with connection_id, which names a connection of one integration";
  throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
}
