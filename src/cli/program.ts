import { Command, CommanderError, Help } from "commander";
import { version } from "../base/version.ts";
import { groupCommands, inGroupOrder } from "./command-groups.ts";
import { addCommands } from "./commands/commands.ts";
import { addCompletion } from "./completion/completion.ts";
import { addExamples } from "./examples.ts";
import { addOwnCommand, type OwnCommand } from "./process/own-command.ts";
import { type Act, addressOf, controlOptions, withSession } from "./session.ts";
import { exitCodes } from "./terminal/exit-codes.ts";
import { type CommandFailure, describeFailure, failureJson, failureText } from "./terminal/failure.ts";
import { createPaint } from "./terminal/paint.ts";
import { plainParseError } from "./terminal/parse-errors.ts";
import { type Terminal, write } from "./terminal/terminal.ts";
import { wrapHelp } from "./terminal/wrap-help.ts";
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
    if (failure !== undefined && !reader.signal.aborted) {
      await write(terminal.stderr, isJson(argv) ? failureJson(failure) : failureText(failure));
    }
    return exitCode;
  } finally {
    terminal.stdout.off("error", leave);
  }
}

/** Whether the words ask for JSON. Errors must be known as JSON before the words are parsed. */
function isJson(argv: readonly string[]): boolean {
  const words = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
  return words.some(
    (word, at) =>
      /^(?:--json|-o=?json|--output=json)$/.test(word) ||
      (word === "json" && /^(?:-o|--output)$/.test(words[at - 1] ?? "")),
  );
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
  const program = createProgram({
    terminal,
    act,
    ownCommands,
    keepExitCode: (code) => (exitCode = code),
    isJson: isJson(argv),
  });
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
  /** Print mistakes in the words as JSON. */
  readonly isJson?: boolean;
}

/** Creates the whole command tree. Subcommands inherit the program's settings. */
export function createProgram({ terminal, act, ownCommands, keepExitCode, isJson = false }: ProgramParts): Command {
  const program = new Command("latchkey")
    .description("Stores your users' tokens and API keys, and adds them to the requests that your service sends.")
    .version(version, "--version", "show the version")
    .helpOption("-h, --help", "show help")
    .exitOverride()
    .showHelpAfterError(isJson ? false : "Run with --help for usage.")
    .configureHelp({
      visibleGlobalOptions: ({ parent }) => (parent === null ? [] : [...controlOptions]),
      minWidthToWrap: 20,
      visibleCommands(command) {
        const visible = Help.prototype.visibleCommands.call(this, command);
        return command.parent === null ? inGroupOrder(visible) : visible;
      },
      // Arguments are in the help of the command itself.
      subcommandTerm: (command) => command.name(),
      commandUsage: (command) => brokenUsage(Help.prototype.commandUsage.call(new Help(), command)),
    })
    .configureOutput(outputOn(terminal, isJson));
  for (const option of controlOptions) program.addOption(option);
  for (const own of ownCommands) addOwnCommand(program, own, keepExitCode);
  addCommands(program, act, { terminal, keepExitCode });
  addCompletion(program, terminal);
  addExamples(program);
  groupCommands(program);
  program.addHelpText("after", "\nBegin with `latchkey dev` and, in a second terminal, `latchkey tour`.");
  return program;
}

/** A terminal of default size. Wider lines are harder to read. */
const helpWidth = 80;

/** Breaks a usage line that is too long before its arguments. */
const brokenUsage = (usage: string): string =>
  "Usage: ".length + usage.length <= helpWidth ? usage : usage.replace(/ (?=\[options\]|<)/, "\n         ");

/** Without these, commander would write to the process's own streams, and measure them. */
function outputOn(terminal: Terminal, json: boolean) {
  const hasColors = createPaint(terminal)("bold", "") !== "";
  return {
    writeOut: (text: string) => void terminal.stdout.write(wrapHelp(text, helpWidth)),
    writeErr: (text: string) => void terminal.stderr.write(text),
    outputError: (text: string, print: (text: string) => void) => {
      const failure = { message: plainParseError(text), violations: [], notes: [] };
      print(json ? failureJson(failure) : failureText(failure));
    },
    getOutHelpWidth: () => helpWidth,
    getErrHelpWidth: () => helpWidth,
    getOutHasColors: () => hasColors,
    getErrHasColors: () => hasColors,
  };
}
