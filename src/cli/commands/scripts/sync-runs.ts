import { toJson } from "@bufbuild/protobuf";
import type { Command } from "commander";
import { kindName, stateName } from "../../../core/scripts/run-ending.ts";
import { LogLineSchema } from "../../../gen/latchkey/v1/log_pb.ts";
import { type Run_State, RunSchema, SyncService } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act } from "../../session.ts";
import { took } from "../../terminal/amounts.ts";
import { moment } from "../../terminal/moment.ts";
import { count } from "../../terminal/option-values.ts";
import { type Extent, pagesOf } from "../../terminal/paging.ts";
import { type ConnectionName, nameOf, placeName } from "../connections/names.ts";
import { countsText, runStates, runStatesNamed, runStateText, runStateTone, runStory } from "./run-states.ts";
import { linesOf } from "./run-waiting.ts";

const defaultLimit = 50;

interface RunListOptions extends Extent {
  readonly script?: string;
  readonly state?: readonly Run_State[];
}

/** Adds `syncs runs`, `run` and `cancel`, for runs of all scripts. */
export function addRuns(group: Command, act: Act): void {
  group
    .command("runs")
    .argument("[integration[/connection]]", "only those there", placeName)
    .option("--script <name>", "only those of this script")
    .option("--state <state>", `only those that are ${runStates.join(", ")}; repeatable`, runStatesNamed)
    .option("--limit <count>", `at most this many (default: ${defaultLimit})`, count)
    .option("--all", "all of them")
    .summary("what scripts did: syncs, actions and hooks; the newest first")
    .action(
      act(async ({ client, output, environment }, place: ConnectionName | undefined, given: RunListOptions) => {
        const { script = "", state = [], limit, all } = given;
        const most = limit ?? (all === true ? undefined : defaultLimit);
        const filter = { integration: place?.integration ?? "", connectionId: place?.id ?? "", script };
        let more = false;
        await output.many({
          schema: RunSchema,
          none: "no runs",
          pages: pagesOf({
            maxPageSize: 1_000,
            limit: most,
            onMore: () => (more = true),
            fetch: async (page) => {
              const request = { environment, ...filter, states: [...state], ...page };
              const { runs, nextPageToken } = await client(SyncService).listRuns(request);
              return { items: runs, nextPageToken };
            },
          }),
          columns: [
            { title: "RUN", text: ({ id }) => id },
            { title: "WHEN", text: ({ startedAt, dueAt }) => moment(startedAt ?? dueAt) },
            { title: "SCRIPT", text: ({ kind, script: name }) => `${kindName(kind)} ${name}`.trim() },
            { title: "CONNECTION", text: ({ connection }) => nameOf(connection) },
            { title: "BY", text: ({ cause }) => cause },
            { title: "STATE", text: runStateText, tone: runStateTone },
            { title: "TOOK", text: ({ duration }) => took(duration) },
            { title: "RECORDS", text: countsText },
          ],
        });
        if (more) await output.note(`There may be more than these ${most}: --all lists them, --limit so many.`);
      }),
    );

  group
    .command("run")
    .argument("<run>", "its id")
    .summary("one run: what came of it, why it failed and where, and what it said")
    .action(
      act(async (session, id: string) => {
        const { client, output, environment } = session;
        const { run } = await client(SyncService).getRun({ environment, id });
        if (run === undefined) return;
        const lines = await linesOf(session, run);
        if (!output.json) return output.line(runStory(run, lines, output.paint));
        const asJson = { useProtoFieldName: true } as const;
        await output.document({
          run: toJson(RunSchema, run, asJson),
          lines: lines.map((line) => toJson(LogLineSchema, line, asJson)),
        });
      }),
    );

  group
    .command("cancel")
    .argument("<run>", "its id")
    .summary("end a run, whether it waits or is under way")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const { run } = await client(SyncService).cancelRun({ environment, id });
        if (run !== undefined) await output.done(RunSchema, run, `run ${id} is ${stateName(run.state)}`);
      }),
    );
}
