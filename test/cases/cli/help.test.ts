import type { Command } from "commander";
import { expect, it } from "vitest";
import { createProgram, runCli } from "../../../src/cli/program.ts";
import type { Act } from "../../../src/cli/session.ts";
import { plainParseError } from "../../../src/cli/terminal/parse-errors.ts";
import { memoryTerminal } from "./memory-terminal.ts";

const idle: Act = () => async () => {};
const program = createProgram({ terminal: memoryTerminal(), act: idle, ownCommands: [], keepExitCode: () => {} });

/** All commands that a person sees, and whether each runs something itself. */
function commandsBelow(command: Command, path: readonly string[] = []): { path: readonly string[]; isLeaf: boolean }[] {
  return command.commands
    .filter((sub) => !sub.name().startsWith("__"))
    .flatMap((sub) => {
      const at = [...path, sub.name()];
      return [{ path: at, isLeaf: sub.commands.length === 0 }, ...commandsBelow(sub, at)];
    });
}

it("explains each command within 80 columns, with an example", async () => {
  const all = [{ path: [], isLeaf: false }, ...commandsBelow(program)];
  expect(all.length).toBeGreaterThan(70);
  const mistakes: string[] = [];
  for (const { path, isLeaf } of all) {
    const terminal = memoryTerminal();
    await runCli([...path, "--help"], terminal);
    const name = path.join(" ");
    mistakes.push(
      ...terminal
        .out()
        .split("\n")
        .filter((line) => line.length > 80)
        .map((line) => `${name}: ${line}`),
    );
    if (isLeaf && !/\nExamples?:\n {2}\S/.test(terminal.out())) mistakes.push(`${name}: no example`);
  }
  expect(mistakes).toEqual([]);
});

it.each([
  ["error: required option '--provider <name>' not specified", "give --provider <name>"],
  ["error: missing required argument 'key'", "give <key>"],
  ["error: option '-e, --environment <name>' argument missing", "-e, --environment <name> needs a value"],
  ["error: unknown option '--tga'\n(Did you mean --tag?)", "there is no option --tga. Did you mean --tag?"],
  ["error: unknown command 'sycns'\n(Did you mean syncs?)", "there is no command sycns. Did you mean syncs?"],
  [
    "error: too many arguments for 'list'. Expected 0 arguments but got 1.",
    "list takes no arguments, and 1 were given",
  ],
  ["error: option '--a <x>' cannot be used with option '--b <y>'", "use --a or --b, not both"],
  [
    "error: option '--callback <form>' argument 'x' is invalid. Allowed choices are shared, bound.",
    '--callback: "x" is not valid. It must be one of shared, bound.',
  ],
])("says %j in plain words", (theirs, ours) => {
  expect(plainParseError(`${theirs}\n`)).toBe(ours);
});

it("writes mistakes in the words as JSON under --json", async () => {
  const terminal = memoryTerminal();
  expect(await runCli(["connections", "get", "ada", "--json"], terminal)).toBe(2);
  expect(JSON.parse(terminal.err())).toEqual({
    error: { code: "usage", message: expect.stringContaining("Write it as integration/connection") },
  });
});
