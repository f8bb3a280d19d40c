import { type Command, Option } from "commander";
import { kindName } from "../../../core/scripts/run-ending.ts";
import {
  Run_State,
  Script_Kind,
  SyncService,
  type TestScriptResponse,
  TestScriptResponseSchema,
} from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { type ConnectionName, connectionName, refOf } from "../connections/names.ts";
import { inputHelp, readValue, runAction } from "./action-runs.ts";
import { runStory } from "./run-states.ts";
import { runOver, runTimeoutMs, tellRun } from "./run-waiting.ts";
import { trigger } from "./syncs.ts";

const kinds = { sync: Script_Kind.SYNC, action: Script_Kind.ACTION, event: Script_Kind.EVENT } as const;

interface DryRunOptions {
  readonly kind?: keyof typeof kinds;
  readonly dryRun?: true;
  readonly input?: string;
  readonly webhook?: true;
}

/** Adds `scripts run`: runs a script now, for real or as a dry run. */
export function addTrial(group: Command, act: Act): void {
  group
    .command("run")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .argument("<script>", "name of the script")
    .option("--dry-run", "save nothing, and show what would be saved; requests to the provider are sent")
    .option("--input <json>", inputHelp)
    .option("--webhook", "with --dry-run: run the webhook handler of a sync with the input")
    .addOption(new Option("--kind <kind>", "kind of script, if several have this name").choices(Object.keys(kinds)))
    .summary("run a script once and show the result")
    .addHelpText("after", helpText)
    .action(act(run));
}

const helpText = `
Exit code: 0 if the script succeeded, 1 if it failed.`;

async function run(
  session: CommandSession,
  target: ConnectionName,
  name: string,
  given: DryRunOptions,
): Promise<number> {
  if (given.dryRun === true) return dryRun(session, target, name, given);
  if (given.webhook === true) throw new UsageMistake("--webhook requires --dry-run");
  const kind = await kindOf(session, target, name, given);
  if (kind === Script_Kind.EVENT)
    throw new UsageMistake(`${name} is an event script, which only Latchkey runs; use --dry-run to try it`);
  if (kind === Script_Kind.ACTION) {
    const input = await readValue(given.input, session.terminal);
    return runAction(session, target, { action: name, input, isAsync: false });
  }
  if (given.input !== undefined) throw new UsageMistake("a sync takes no --input");
  const { runIds } = await trigger(session, target, { names: [name], mode: "incremental" });
  const [id] = runIds;
  if (id === undefined) throw new Error(`no run of ${name} started`);
  return tellRun(session, await runOver(session, id));
}

async function dryRun(
  session: CommandSession,
  target: ConnectionName,
  name: string,
  given: DryRunOptions,
): Promise<number> {
  const { client, output, timeoutMs = runTimeoutMs } = session;
  const { kind, webhook = false } = given;
  const input = await readValue(given.input, session.terminal);
  const answer = await client(SyncService).testScript(
    {
      connection: refOf(session, target),
      name,
      kind: kind === undefined ? Script_Kind.UNSPECIFIED : kinds[kind],
      ...(input && { input }),
      onWebhook: webhook,
    },
    { timeoutMs },
  );
  if (output.json) await output.one(TestScriptResponseSchema, answer);
  else if (answer.run !== undefined) {
    await output.line(runStory(answer.run, answer.lines, output.paint));
    if (answer.run.kind === Script_Kind.SYNC) await output.line(trialStory(answer));
  }
  return answer.run?.state === Run_State.SUCCEEDED ? exitCodes.ok : exitCodes.failed;
}

/** Shows a sync's starting checkpoint, and what it would have written, record by record. */
function trialStory({ recordChanges, checkpoint, savedCheckpoint, checkpointCleared }: TestScriptResponse): string {
  const records = recordChanges.flatMap(({ model, action, count, records: shown }) => [
    `would ${action} ${formatCount(Number(count), "record")} of ${model}:`,
    ...shown.map((record) => `  ${JSON.stringify(record)}`),
    ...(Number(count) > shown.length ? [`  and ${Number(count) - shown.length} more`] : []),
  ]);
  const began = checkpoint === undefined ? "began without a checkpoint" : `began at ${JSON.stringify(checkpoint)}`;
  const left =
    savedCheckpoint === undefined
      ? checkpointCleared
        ? ["would clear the checkpoint"]
        : []
      : [`would save the checkpoint ${JSON.stringify(savedCheckpoint)}`];
  return ["", began, ...records, ...left].map(escapeControl).join("\n");
}

/** Returns the kind of the script of that name; if there are several, the user must choose. */
async function kindOf(
  session: CommandSession,
  target: ConnectionName,
  name: string,
  { kind }: DryRunOptions,
): Promise<Script_Kind> {
  if (kind !== undefined) return kinds[kind];
  const { scripts } = await session.client(SyncService).listScripts({ integration: target.integration });
  const found = scripts.filter((script) => script.name === name);
  const [only, ...others] = found;
  if (only === undefined)
    throw new Error(
      `${target.integration} has no script ${name}; use \`scripts list ${target.integration}\` to list its scripts`,
    );
  if (others.length === 0) return only.kind;
  throw new UsageMistake(
    `several scripts are named ${name}: give --kind ${found.map((one) => kindName(one.kind)).join(" or ")}`,
  );
}
