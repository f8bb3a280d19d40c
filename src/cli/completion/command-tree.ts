import type { Command } from "commander";

/** Names that a running Latchkey knows. */
export const nameKinds = ["environments", "integrations", "providers", "connections"] as const;
export type NameKind = (typeof nameKinds)[number];

/** The hidden command that prints them. */
export const namesCommand = "__names";

/** A command as a shell completes it. */
export interface CompletedCommand {
  /** The words of the command; empty for the program itself. */
  readonly path: readonly string[];
  readonly summary: string;
  /** Possible next words: subcommands, or fixed values of the first argument. */
  readonly next: readonly string[];
  /** The first argument is a name of this kind. */
  readonly names?: NameKind | undefined;
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
  /** The value is a name of this kind. */
  readonly names?: NameKind | undefined;
}

/** Returns all commands, each before its subcommands. */
export function commandTree(command: Command, path: readonly string[] = []): readonly CompletedCommand[] {
  const shown = command.commands.filter((sub) => sub.name() !== namesCommand);
  const own = {
    path,
    summary: command.summary(),
    next: [...shown.map((sub) => sub.name()), ...(command.registeredArguments[0]?.argChoices ?? [])],
    names: kindOfArgument(path[0], command.registeredArguments[0]?.name()),
    options: command.options.map(({ short, long, description, required, optional, argChoices }) => ({
      flags: [short, long].filter((flag) => flag !== undefined),
      summary: description,
      takesValue: required || optional,
      choices: argChoices ?? [],
      names: long == null ? undefined : optionKinds[long],
    })),
  };
  return [own, ...shown.flatMap((sub) => commandTree(sub, [...path, sub.name()]))];
}

const optionKinds: Readonly<Record<string, NameKind>> = {
  "--environment": "environments",
  "--integration": "integrations",
  "--provider": "providers",
  "--connection": "connections",
};

/** Returns the kind of names of a command's first argument, which only its name in the help tells. */
function kindOfArgument(group: string | undefined, argument: string | undefined): NameKind | undefined {
  if (argument?.startsWith("integration/connection") || argument === "integration[/connection]") return "connections";
  if (argument === "integration") return "integrations";
  const isName = argument === "name" || argument === "key";
  return isName ? nameKinds.find((kind) => kind === group) : undefined;
}

/** Returns the options that take a name of a kind, each with all its forms. */
export const namedFlags = (commands: readonly CompletedCommand[]): ReadonlyMap<NameKind, readonly string[]> =>
  new Map(
    nameKinds.map((kind) => [
      kind,
      [
        ...new Set(
          commands.flatMap(({ options }) => options.flatMap(({ flags, names }) => (names === kind ? flags : []))),
        ),
      ],
    ]),
  );

/** Returns all forms of options that take a value. */
export const valuedFlags = (commands: readonly CompletedCommand[]): readonly string[] => [
  ...new Set(commands.flatMap(({ options }) => options.flatMap(({ flags, takesValue }) => (takesValue ? flags : [])))),
];
