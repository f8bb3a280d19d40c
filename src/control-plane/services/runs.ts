import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import { withOutput } from "../../broker/syncs/runs/run-results.ts";
import type { SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerOf, connectionRefOf, pageOf } from "../server/context.ts";

type RunMethods = Pick<ServiceImpl<typeof SyncService>, "listRuns" | "getRun" | "cancelRun" | "runAction">;

/** The methods of the sync service for runs of scripts, actions included. */
export const runMethods = ({ runs, actions, environments }: Broker): RunMethods => ({
  async listRuns({ environment: requested, integration, connectionId, script, states, ...request }, context) {
    if (connectionId !== "" && integration === "") {
      const message = "must be given with connection_id, which names a connection of one integration";
      throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
    }
    const environment = await environments.of(callerOf(context), requested);
    const filter = { environment, integration, connectionId, script, states };
    const { items, next } = await runs.list(filter, pageOf(request));
    return { runs: [...items], nextPageToken: next };
  },
  async getRun({ environment: requested, id }, context) {
    return { run: await runs.get({ environment: await environments.of(callerOf(context), requested), id }) };
  },
  async cancelRun({ environment: requested, id }, context) {
    const caller = callerOf(context);
    return { run: await runs.cancel({ environment: await environments.of(caller, requested), id }, caller.keyId) };
  },
  async runAction({ connection, name, input: given, async: isAsync }, context) {
    const ref = await connectionRefOf(environments, connection, context);
    const input = given === undefined ? undefined : toJson(ValueSchema, given);
    if (isAsync) return { run: await actions.begin({ ref, name, input }) };
    const { run, outcome } = await actions.run({ ref, name, input }, { signal: context.signal });
    if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
    return { run: withOutput(run, outcome.output) };
  },
});
