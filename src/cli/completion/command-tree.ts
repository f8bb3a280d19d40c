import type { Command } from "commander";

/** A command as a shell completes it. */
export interface CompletedCommand {
  /** The words of the command; empty for the program itself. */
  readonly path: readonly string[];
  readonly summary: string;
  /** Possible next words: subcommands, or fixed values of the first argument. */
  readonly next: readonly string[];
  /** The command's own options; the program's options may be anywhere. */
  readonly options: readonly CompletedOption[];
}

export interface CompletedOption {
  /** All forms of the option: `-e`, `--environment`. */
  readonly flags: readonly string[];
  readonly summary: string;
  readonly takesValue: boolean;
  /** The option's values, if they are fixed. */
  readonly choices: readonly string[];
}

/** Returns all commands, each before its subcommands. */
export function commandTree(command: Command, path: readonly string[] = []): readonly CompletedCommand[] {
  const own = {
    path,
    summary: command.summary(),
    next: [...command.commands.map((sub) => sub.name()), ...(command.registeredArguments[0]?.argChoices ?? [])],
    options: command.options.map(({ short, long, description, required, optional, argChoices }) => ({
      flags: [short, long].filter((flag) => flag !== undefined),
      summary: description,
      takesValue: required || optional,
      choices: argChoices ?? [],
    })),
  };
  return [own, ...command.commands.flatMap((sub) => commandTree(sub, [...path, sub.name()]))];
}

/** Returns all forms of options that take a value. */
export const valuedFlags = (commands: readonly CompletedCommand[]): readonly string[] => [
  ...new Set(commands.flatMap(({ options }) => options.flatMap(({ flags, takesValue }) => (takesValue ? flags : [])))),
];
