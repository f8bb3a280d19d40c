import { type Command, Option } from "commander";
import { kindName } from "../../../core/scripts/run-ending.ts";
import {
  GetScriptResponseSchema,
  type Script,
  Script_Kind,
  ScriptSchema,
  SyncService,
} from "../../../gen/latchkey/v1/sync_pb.ts";
import { addOwnCommand } from "../../process/own-command.ts";
import type { Act } from "../../session.ts";
import { escapeControl, escapeControlInLines } from "../../terminal/escape-control.ts";
import type { Tone } from "../../terminal/paint.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { checkCommand } from "./check.ts";
import { addTrial } from "./dry-run.ts";

const kinds = { sync: Script_Kind.SYNC, action: Script_Kind.ACTION, event: Script_Kind.EVENT } as const;

interface ScriptCommandContext {
  readonly terminal: Terminal;
  readonly keepExitCode: (code: number) => void;
}

/** Adds the `scripts` commands, for script files. */
export function addScripts(program: Command, act: Act, { terminal, keepExitCode }: ScriptCommandContext): void {
  const group = program.command("scripts").summary("list, check and run your scripts");
  addList(group, act);
  addSource(group, act);
  addOwnCommand(group, checkCommand(terminal), keepExitCode);
  addTrial(group, act);
}

function addList(group: Command, act: Act): void {
  group
    .command("list")
    .argument("[integration]", "only scripts of this integration")
    .summary("list scripts, including broken ones")
    .action(
      act(async ({ client, output }, integration = "") => {
        const { scripts } = await client(SyncService).listScripts({ integration });
        await output.many({
          schema: ScriptSchema,
          none: "no scripts: set LATCHKEY_SCRIPTS to a folder with <integration>/{syncs,actions,events}/<name>.ts",
          pages: onePage(scripts),
          columns: [
            { title: "INTEGRATION", text: (script) => script.integration },
            { title: "KIND", text: ({ kind }) => kindName(kind) },
            { title: "NAME", text: ({ name }) => name },
            { title: "STATE", text: stateText, tone: stateTone },
            { title: "FREQUENCY", text: ({ frequency }) => frequency },
            { title: "MODELS", text: ({ models }) => models.join(", ") },
            { title: "ENDPOINTS", text: ({ endpoints }) => endpoints.join(", ") },
            { title: "DESCRIPTION", text: ({ description }) => description },
          ],
        });
        if (output.json) return;
        for (const { path, message } of scripts.flatMap(({ problem }) => problem?.violations ?? []))
          await output.line(`${output.paint("bad", escapeControl(path))}: ${escapeControl(message)}`);
      }),
    );
}

/** Prints the source alone, so that it can be piped; mistakes of a newer version go to stderr. */
function addSource(group: Command, act: Act): void {
  group
    .command("get")
    .argument("<integration>", "for example calendar")
    .argument("<script>", "name of the script")
    .addOption(new Option("--kind <kind>", "kind of script, if several have this name").choices(Object.keys(kinds)))
    .summary("print the source of a script")
    .action(
      act(
        async (
          { client, output },
          integration: string,
          name: string,
          given: { readonly kind?: keyof typeof kinds },
        ) => {
          const kind = given.kind === undefined ? Script_Kind.UNSPECIFIED : kinds[given.kind];
          const answer = await client(SyncService).getScript({ integration, name, kind });
          if (output.json) return output.one(GetScriptResponseSchema, answer);
          for (const { path, message } of answer.script?.problem?.violations ?? [])
            await output.note(`${path}: ${message}`);
          if (answer.source !== "") await output.line(escapeControlInLines(answer.source.trimEnd()));
          if (answer.sourceTruncated) await output.note("The source is longer; this is its beginning.");
        },
      ),
    );
}

/** A broken script keeps running in its last valid version, if there was one. */
function stateText({ problem, version }: Script): string {
  if (problem === undefined) return "good";
  return version === "" ? "broken" : "broken; the previous version runs";
}

function stateTone({ problem, version }: Script): Tone {
  if (problem === undefined) return "good";
  return version === "" ? "bad" : "warning";
}

async function* onePage<T>(page: readonly T[]): AsyncGenerator<readonly T[]> {
  yield page;
}
