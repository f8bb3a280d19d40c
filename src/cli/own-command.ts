import { type Command, Option } from "commander";
import { controlOptions } from "./session.ts";
import { UsageMistake } from "./usage-mistake.ts";

/** A command that is given from outside, because it needs more of the process than a terminal: `serve`, `dev`. */
export interface OwnCommand {
  readonly name: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** Stands below the options in its `--help` as it is, line breaks and all: such as a list of variables. */
  readonly helpText?: string;
  /** The words it takes, as in `[file]` or `<name>`. */
  readonly arguments?: readonly string[];
  readonly options?: readonly OwnOption[];
  readonly subcommands?: readonly OwnCommand[];
  /**
   * Runs it; the number becomes the exit code. `args` are the words behind the command's name, `options` those that
   * were given, by their long name without dashes, as text or as `true`. Without `run` it only groups subcommands.
   */
  run?(args: readonly string[], options: Readonly<Record<string, string | true>>): Promise<number>;
}

/** An option as it stands in the help: `--store <url>`, `-q, --quiet`. The names of the control plane's are taken. */
export interface OwnOption {
  readonly flags: string;
  readonly summary: string;
}

export function addOwnCommand(parent: Command, own: OwnCommand, keepExitCode: (code: number) => void): void {
  const { name, summary, helpText, arguments: words = [], options = [], subcommands = [] } = own;
  const command = parent.command(name).summary(summary).description(summary);
  command.configureHelp({ visibleGlobalOptions: () => [] });
  for (const word of words) command.argument(word);
  for (const { flags, summary: meaning } of options) command.addOption(new Option(flags, meaning));
  if (helpText !== undefined) command.addHelpText("after", `\n${helpText}`);
  for (const subcommand of subcommands) addOwnCommand(command, subcommand, keepExitCode);
  if (own.run === undefined) return;
  command.action(async () => {
    refuseControlOptions(command);
    const given = command.options.flatMap((option) => {
      const value: unknown = command.getOptionValue(option.attributeName());
      return typeof value === "string" || value === true ? [[option.name(), value] as const] : [];
    });
    keepExitCode((await own.run?.(command.args, Object.fromEntries(given))) ?? 0);
  });
}

/** They are read wherever they stand, and would be lost here without a word. */
function refuseControlOptions(command: Command): void {
  const given = command.optsWithGlobals<Record<string, unknown>>();
  const stray = controlOptions.find((option) => given[option.attributeName()] !== undefined);
  if (stray !== undefined) throw new UsageMistake(`${stray.long ?? stray.flags} is not for \`${command.name()}\``);
}
