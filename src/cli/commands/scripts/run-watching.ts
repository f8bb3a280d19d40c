import type { Command } from "commander";
import { LogLineSchema } from "../../../gen/latchkey/v1/log_pb.ts";
import { type Run, Run_State, RunSchema, SyncService } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { createTable } from "../../terminal/table.ts";
import { write } from "../../terminal/terminal.ts";
import { type ConnectionName, placeName } from "../connections/names.ts";
import { gapText, showLive } from "../following.ts";
import { formatLogLine } from "../log-lines.ts";
import { runColumns, runStates, runStatesNamed, runStory } from "./run-states.ts";

interface RunWatchFilter {
  readonly script?: string;
  readonly state?: readonly Run_State[];
}

/** Adds `runs watch`: prints the runs of all scripts as they are queued, start and end, until interrupted. */
export function addRunWatch(program: Command, act: Act): void {
  program
    .command("runs")
    .summary("follow the runs of scripts")
    .command("watch")
    .argument("[integration[/connection]]", "only runs of this integration or connection", placeName)
    .option("--script <name>", "only runs of this script")
    .option("--state <state>", `only changes to this state: ${runStates.join(", ")}; repeatable`, runStatesNamed)
    .summary("print runs as they are queued, start and end, until interrupted")
    .action(act(watchRuns));
}

function watchRuns(session: CommandSession, place: ConnectionName | undefined, given: RunWatchFilter): Promise<void> {
  const { client, output, terminal, environment } = session;
  const { script = "", state = [] } = given;
  const filter = { integration: place?.integration ?? "", connectionId: place?.id ?? "", script, states: [...state] };
  const table = createTable(runColumns, output.paint, output.layout);
  return showLive(session, {
    steps: client(SyncService).watchRuns({ environment, ...filter }),
    what: "runs",
    show(event) {
      if (event.case !== "run") return undefined;
      return output.json ? output.one(RunSchema, event.value) : write(terminal.stdout, table.draw([event.value]));
    },
  });
}

/** Prints the log lines of a run as they come, and the run when it has ended; the exit code reflects its result. */
export async function followRun(session: CommandSession, id: string): Promise<number> {
  const { client, output, environment, terminal } = session;
  let last: Run | undefined;
  try {
    for await (const { event } of client(SyncService).watchRun({ environment, id })) {
      if (event.case === "run") last = event.value;
      else if (event.case === "gap") await output.note(gapText(event.value, "lines"));
      else if (event.case === "elsewhere")
        await output.note("Another replica executes the run; its lines follow when it ends.");
      else if (event.case === "lines") {
        for (const line of event.value.lines) {
          if (output.json) await output.one(LogLineSchema, line);
          else for (const text of formatLogLine(line, output.paint)) await output.line(text);
        }
      }
    }
  } catch (error) {
    if (terminal.signal.aborted) return exitCodes.ok;
    throw error;
  }
  if (last === undefined) return exitCodes.failed;
  if (output.json) await output.one(RunSchema, last);
  else await output.line(`\n${runStory(last, [], output.paint)}`);
  return last.state === Run_State.SUCCEEDED ? exitCodes.ok : exitCodes.failed;
}
