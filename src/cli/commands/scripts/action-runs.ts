import { fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import type { Command } from "commander";
import { RunSchema, ScriptErrorSchema, SyncService } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { codeOf } from "../../terminal/failure.ts";
import { readJsonArgument } from "../../terminal/input.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type ConnectionName, connectionName, nameOf, refOf } from "../connections/names.ts";
import { stackOf } from "./run-states.ts";
import { linesOf, runTimeoutMs } from "./run-waiting.ts";

interface ActionRunOptions {
  readonly input?: string;
  readonly async?: boolean;
}

export const inputHelp = "input: JSON, @file, or - for stdin";

/** Adds `actions run`. Past runs are listed by `syncs runs`. */
export function addActions(program: Command, act: Act): void {
  program
    .command("actions")
    .summary("run actions: scripts that run on demand")
    .command("run")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .argument("<action>", "name of the action")
    .option("--input <json>", inputHelp)
    .option("--async", "return at once, without waiting for the output")
    .summary("run an action and print its output")
    .action(
      act(async (session, name: ConnectionName, action: string, { input, async: isAsync = false }: ActionRunOptions) =>
        runAction(session, name, { action, input: await readValue(input, session.terminal), isAsync }),
      ),
    );
}

interface ActionRunRequest {
  readonly action: string;
  readonly input: Value | undefined;
  readonly isAsync: boolean;
}

/** Prints the output unchanged, so that it can be piped. */
export async function runAction(
  session: CommandSession,
  connection: ConnectionName,
  request: ActionRunRequest,
): Promise<number> {
  const { client, output, timeoutMs = runTimeoutMs } = session;
  const { action, input, isAsync } = request;
  const call = { connection: refOf(session, connection), name: action, ...(input && { input }), async: isAsync };
  try {
    const { run } = await client(SyncService).runAction(call, { timeoutMs });
    if (run === undefined) return exitCodes.failed;
    if (isAsync) {
      await output.done(RunSchema, run, `queued: ${run.id}`);
      if (!output.json) await output.note("Use `syncs run ID` to see the result.");
    } else if (output.json) await output.one(RunSchema, run);
    else if (run.output === undefined) await output.note(`${action} of ${nameOf(run.connection)} returned no output`);
    else await output.document(toJson(ValueSchema, run.output));
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof ConnectError && codeOf(error) === "script_failed") await tellWhere(session, error);
    throw error;
  }
}

/** The error says why the run failed, the run says where; with --json, the run says both. */
async function tellWhere(session: CommandSession, error: ConnectError): Promise<void> {
  const { client, output, environment } = session;
  const id = error.findDetails(ScriptErrorSchema)[0]?.runId ?? "";
  if (id === "") return;
  const { run } = await client(SyncService).getRun({ environment, id });
  if (run === undefined) return;
  if (output.json) {
    await output.one(RunSchema, run);
    return;
  }
  for (const line of stackOf(await linesOf(session, run))) await output.note(`  at ${line}`);
  await output.note(`Use \`syncs run ${run.id}\` to see its log.`);
}

/** Reads a JSON value for a request; undefined if none was given. */
export async function readValue(text: string | undefined, terminal: Terminal): Promise<Value | undefined> {
  if (text === undefined) return undefined;
  // Parsed from JSON, so it is a JSON value.
  return fromJson(ValueSchema, (await readJsonArgument(text, terminal)) as JsonValue);
}
