import type { Command } from "commander";
import { stateName } from "../../../core/scripts/run-ending.ts";
import { LogLineSchema } from "../../../gen/latchkey/v1/log_pb.ts";
import { type Run_State, RunSchema, SyncService } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { plainJson } from "../../terminal/plain-json.ts";
import { listCommand } from "../command-kinds.ts";
import { type ConnectionName, placeName } from "../connections/names.ts";
import { runColumns, runStates, runStatesNamed, runStory } from "./run-states.ts";
import { linesOf } from "./run-waiting.ts";
import { followRun } from "./run-watching.ts";

interface RunListOptions {
  readonly script?: string;
  readonly state?: readonly Run_State[];
}

/** Adds `syncs runs`, `run` and `cancel`, for runs of all scripts. */
export function addRuns(group: Command, act: Act): void {
  const list = group
    .command("runs")
    .summary("list runs of syncs, actions and event scripts, newest first")
    .argument("[integration[/connection]]", "only runs of this integration or connection", placeName)
    .option("--script <name>", "only runs of this script")
    .option("--state <state>", `only runs in this state: ${runStates.join(", ")}; repeatable`, runStatesNamed);
  listCommand(list, act, {
    schema: RunSchema,
    none: "no runs",
    defaultLimit: 50,
    rpc: ({ client, environment }, page, scope: ConnectionName | undefined, given: RunListOptions) => {
      const { script = "", state = [] } = given;
      const filter = { integration: scope?.integration ?? "", connectionId: scope?.id ?? "", script };
      return client(SyncService).listRuns({ environment, ...filter, states: [...state], ...page });
    },
    items: ({ runs }) => runs,
    columns: runColumns,
  });

  group
    .command("run")
    .argument("<run>", "id of the run")
    .option("-f, --follow", "print the log lines as they come, until the run ends")
    .summary("show a run with its result, error and log")
    .action(
      act(async (session, id: string, { follow }: { readonly follow?: true }) => {
        if (follow === true) return followRun(session, id);
        const { client, output, environment } = session;
        const { run } = await client(SyncService).getRun({ environment, id });
        if (run === undefined) return exitCodes.failed;
        const lines = await linesOf(session, run);
        if (!output.json) await output.line(runStory(run, lines, output.paint));
        else {
          await output.document({
            run: plainJson(RunSchema, run),
            lines: lines.map((line) => plainJson(LogLineSchema, line)),
          });
        }
        return exitCodes.ok;
      }),
    );

  group
    .command("cancel")
    .argument("<run>", "id of the run")
    .summary("cancel a queued or running run")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const { run } = await client(SyncService).cancelRun({ environment, id });
        if (run !== undefined) await output.done(RunSchema, run, `run ${id} is ${stateName(run.state)}`);
      }),
    );
}
