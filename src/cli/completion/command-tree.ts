import type { Command } from "commander";

/** One command as a shell completes it. */
export interface CompletedCommand {
  /** The words that lead to it; none for the program itself. */
  readonly path: readonly string[];
  readonly summary: string;
  /** What may follow: its subcommands, or the values of its first argument where they are a closed set. */
  readonly next: readonly string[];
  /** Those of its own; the program's may stand anywhere. */
  readonly options: readonly CompletedOption[];
}

export interface CompletedOption {
  /** Every way to write it: `-e`, `--environment`. */
  readonly flags: readonly string[];
  readonly summary: string;
  readonly takesValue: boolean;
  /** The values, where they are a closed set. */
  readonly choices: readonly string[];
}

/** Every command, each before those below it. */
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

/** Every option behind which a value stands, in every way to write it. */
export const valuedFlags = (commands: readonly CompletedCommand[]): readonly string[] => [
  ...new Set(commands.flatMap(({ options }) => options.flatMap(({ flags, takesValue }) => (takesValue ? flags : [])))),
];
