import { type Command, Option } from "commander";
import { controlOptions } from "../session.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

/** A command passed in from outside, because it needs more of the process than a terminal: `serve`, `dev`. */
export interface OwnCommand {
  readonly name: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** Printed verbatim below the options in `--help`, such as a list of variables. */
  readonly helpText?: string;
  /** The arguments, as in `[file]` or `<name>`. */
  readonly arguments?: readonly string[];
  readonly options?: readonly OwnOption[];
  readonly subcommands?: readonly OwnCommand[];
  /** The command supports JSON output, like those of the control plane: `json` is then among its options. */
  readonly canJson?: true;
  /**
   * Runs the command; the result becomes the exit code. `args` are the words after the command's name; `options` are
   * those given, by their long name without dashes, as text or `true`. Without `run`, the command only groups
   * subcommands.
   */
  run?(args: readonly string[], options: Readonly<Record<string, string | true>>): Promise<number>;
}

/** An option as in the help: `--store <url>`, `-q, --quiet`. Must not reuse a name of the control plane's options. */
export interface OwnOption {
  readonly flags: string;
  readonly summary: string;
}

export function addOwnCommand(parent: Command, own: OwnCommand, keepExitCode: (code: number) => void): void {
  const { name, summary, helpText, arguments: words = [], options = [], subcommands = [] } = own;
  const command = parent.command(name).summary(summary).description(summary);
  command.configureHelp({
    ...command.configureHelp(),
    visibleGlobalOptions: () => controlOptions.filter((option) => isTaken(own, option)),
  });
  for (const word of words) command.argument(word);
  for (const { flags, summary: meaning } of options) command.addOption(new Option(flags, meaning));
  if (helpText !== undefined) command.addHelpText("after", `\n${helpText}`);
  for (const subcommand of subcommands) addOwnCommand(command, subcommand, keepExitCode);
  if (own.run === undefined) return;
  command.action(async () => {
    const everywhere = command.optsWithGlobals<Record<string, unknown>>();
    refuseStray(own, everywhere);
    const taken = [...command.options, ...controlOptions.filter((option) => isTaken(own, option))];
    const given = taken.flatMap((option) => {
      const value = everywhere[option.attributeName()];
      return typeof value === "string" || value === true ? [[option.name(), value] as const] : [];
    });
    keepExitCode((await own.run?.(command.args, Object.fromEntries(given))) ?? 0);
  });
}

const isTaken = ({ canJson }: OwnCommand, option: Option): boolean => canJson === true && option.long === "--json";

/** Refuses options of the control plane: commander accepts them anywhere, and they would be ignored silently. */
function refuseStray(own: OwnCommand, given: Readonly<Record<string, unknown>>): void {
  const stray = controlOptions.find((option) => given[option.attributeName()] !== undefined && !isTaken(own, option));
  if (stray !== undefined) throw new UsageMistake(`${stray.long ?? stray.flags} is not for \`${own.name}\``);
}
