import { Command, CommanderError } from "commander";
import { version } from "../base/version.ts";
import { addAudit } from "./commands/audit.ts";
import { addChannels } from "./commands/channels.ts";
import { addConnect } from "./commands/connect.ts";
import { addConnections } from "./commands/connections/connections.ts";
import { addEnvironments } from "./commands/environments.ts";
import { addHealth } from "./commands/health.ts";
import { addIntegrations } from "./commands/integrations.ts";
import { addKeys } from "./commands/keys.ts";
import { addLogs } from "./commands/logs.ts";
import { addProviders } from "./commands/providers.ts";
import { addActions } from "./commands/scripts/action-runs.ts";
import { addScripts } from "./commands/scripts/scripts.ts";
import { addSyncs } from "./commands/scripts/syncs.ts";
import { addStore } from "./commands/store.ts";
import { addWebhooks } from "./commands/webhooks/webhooks.ts";
import { addCompletion } from "./completion/completion.ts";
import { addOwnCommand, type OwnCommand } from "./process/own-command.ts";
import { type Act, addressOf, controlOptions, withSession } from "./session.ts";
import { exitCodes } from "./terminal/exit-codes.ts";
import { type CommandFailure, describeFailure, failureText } from "./terminal/failure.ts";
import { createPaint } from "./terminal/paint.ts";
import { type Terminal, write } from "./terminal/terminal.ts";
import { findWrongDoor } from "./terminal/wrong-address.ts";

/**
 * Runs a command line and returns its exit code. `argv` holds the words after the program's name. All access to the
 * outside goes through `terminal`; commands that need more of the process are passed as `ownCommands`.
 */
export async function runCli(
  argv: readonly string[],
  terminal: Terminal,
  ownCommands: readonly OwnCommand[] = [],
): Promise<number> {
  const reader = new AbortController();
  const leave = () => reader.abort();
  // The reader of our output may leave early (`| head`): then there is nothing left to print to.
  terminal.stdout.on("error", leave);
  const signal = AbortSignal.any([terminal.signal, reader.signal]);
  try {
    const { exitCode, failure } = await run(argv, { ...terminal, signal }, ownCommands);
    if (failure !== undefined && !reader.signal.aborted) await write(terminal.stderr, failureText(failure));
    return exitCode;
  } finally {
    terminal.stdout.off("error", leave);
  }
}

interface CommandResult {
  readonly exitCode: number;
  readonly failure?: CommandFailure;
}

async function run(
  argv: readonly string[],
  terminal: Terminal,
  ownCommands: readonly OwnCommand[],
): Promise<CommandResult> {
  let exitCode: number = exitCodes.ok;
  let running: Command | undefined;
  const act: Act =
    (perform) =>
    async (...args) => {
      // Commander's last argument is the command itself.
      const command = args.at(-1) as Command;
      running = command;
      await withSession(command, terminal, async (session) => {
        exitCode = (await perform(session, ...args)) ?? exitCodes.ok;
      });
    };
  const program = createProgram({ terminal, act, ownCommands, keepExitCode: (code) => (exitCode = code) });
  try {
    await program.parseAsync(argv, { from: "user" });
    return { exitCode };
  } catch (error) {
    // Commander has already printed the mistake, or the help that was requested.
    if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? exitCodes.ok : exitCodes.usage };
    const address = addressOf(running ?? program, terminal);
    const { aborted: interrupted } = terminal.signal;
    const wrongDoor = interrupted ? undefined : await findWrongDoor(error, address);
    const failure = describeFailure(error, { address, interrupted, wrongDoor });
    return { exitCode: failure.exitCode, failure };
  }
}

interface ProgramParts {
  readonly terminal: Terminal;
  readonly act: Act;
  readonly ownCommands: readonly OwnCommand[];
  readonly keepExitCode: (code: number) => void;
}

/** Creates the whole command tree. Subcommands inherit the program's settings. */
export function createProgram({ terminal, act, ownCommands, keepExitCode }: ProgramParts): Command {
  const program = new Command("latchkey")
    .description("Stores your users' tokens and API keys, and adds them to the requests that your service sends.")
    .version(version, "--version", "show the version")
    .helpOption("-h, --help", "show help")
    .exitOverride()
    .showHelpAfterError("Run with --help for usage.")
    .configureHelp({ visibleGlobalOptions: ({ parent }) => (parent === null ? [] : [...controlOptions]) })
    .configureOutput(outputOn(terminal));
  for (const option of controlOptions) program.addOption(option);
  for (const own of ownCommands) addOwnCommand(program, own, keepExitCode);
  addEnvironments(program, act);
  addKeys(program, act);
  addProviders(program, act, { terminal, keepExitCode });
  addIntegrations(program, act);
  addConnections(program, act);
  addConnect(program, act);
  addWebhooks(program, act);
  addChannels(program, act);
  addSyncs(program, act);
  addActions(program, act);
  addScripts(program, act, { terminal, keepExitCode });
  addLogs(program, act);
  addAudit(program, act);
  addStore(program, act, { terminal, keepExitCode });
  addHealth(program, act);
  addCompletion(program, terminal);
  return program;
}

const helpWidth = 100;

/** Without these, commander would write to the process's own streams, and measure them. */
function outputOn(terminal: Terminal) {
  const hasColors = createPaint(terminal)("bold", "") !== "";
  return {
    writeOut: (text: string) => void terminal.stdout.write(text),
    writeErr: (text: string) => void terminal.stderr.write(text),
    outputError: (text: string, print: (text: string) => void) => print(text.replace(/^error: /, "latchkey: ")),
    getOutHelpWidth: () => helpWidth,
    getErrHelpWidth: () => helpWidth,
    getOutHasColors: () => hasColors,
    getErrHasColors: () => hasColors,
  };
}
