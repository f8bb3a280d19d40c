import { type Command, Option } from "commander";
import { controlOptions } from "../session.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

/** A command passed in from outside, because it needs more of the process than a terminal: `serve`, `dev`. */
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
  /** It answers in JSON when asked to, as those over the control plane do: `json` is among its options then. */
  readonly canJson?: true;
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
  command.configureHelp({ visibleGlobalOptions: () => controlOptions.filter((option) => isTaken(own, option)) });
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

/** The control plane's are read wherever they stand, and would be lost here without a word. */
function refuseStray(own: OwnCommand, given: Readonly<Record<string, unknown>>): void {
  const stray = controlOptions.find((option) => given[option.attributeName()] !== undefined && !isTaken(own, option));
  if (stray !== undefined) throw new UsageMistake(`${stray.long ?? stray.flags} is not for \`${own.name}\``);
}
