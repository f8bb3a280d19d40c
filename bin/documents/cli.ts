/** Prints docs/cli.md. Run in a process of its own, since it starts the program up to its commands. */
import type { EventEmitter } from "node:events";
import { Command, type Option } from "commander";
import { code, generatedNote, page, sentence, table } from "./markdown.ts";

function cliPage(root: Command): string {
  const commands = root.commands.filter((one) => one.name() !== "help");
  const tops = commands.filter(isShown);
  return page(
    generatedNote,
    "# Command line",
    "This page lists every command of `latchkey`, with its options and examples.",
    `In a checkout, run \`npm run -s latchkey -- <command>\`. \`latchkey <command> --help\` shows the same text.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done in part. Command names and options have a suggestion when misspelled.`,
    table(
      ["Command", "What it does"],
      tops.map((one) => [
        `[${code(one.name())}](#latchkey-${one.name()})`,
        sentence(one.summary() || one.description()),
      ]),
    ),
    "## Options of all commands that call the control plane",
    optionTable(root.options.filter(({ long }) => long !== "--version")),
    ...tops.map((one) => commandSection(one, ["latchkey"], 2)),
    "Next: [configuration](configuration.md), [errors](errors.md).",
  );
}

const isShown = (command: Command): boolean => (command as unknown as { readonly _hidden?: boolean })._hidden !== true;

function commandSection(command: Command, path: readonly string[], level: number): string {
  const words = [...path, command.name()];
  const subs = command.commands.filter((one) => one.name() !== "help" && isShown(one));
  const options = command.options.filter(({ hidden }) => !hidden);
  const usage = [...words, command.usage().replace(/^\[options\] \[command\]$/, "<command>")].join(" ");
  const aliases = command.aliases();
  return page(
    `${"#".repeat(Math.min(level, 4))} ${words.join(" ")}`,
    [
      sentence(command.description() || command.summary()),
      aliases.length > 0 ? `Also: ${aliases.map(code).join(", ")}.` : "",
    ]
      .filter((part) => part !== "")
      .join(" "),
    subs.length > 0 && options.length === 0 ? "" : `\`\`\`text\n${usage.trim()}\n\`\`\``,
    argumentLines(command),
    options.length === 0 ? "" : optionTable(options),
    textAfter(command),
    ...subs.map((one) => commandSection(one, words, level + 1)),
  ).trimEnd();
}

function argumentLines(command: Command): string {
  return command.registeredArguments
    .filter(({ description }) => description !== "")
    .map((one) => {
      const choices = one.argChoices === undefined ? "" : ` One of ${one.argChoices.map(code).join(", ")}.`;
      return `- ${code(one.name())}: ${sentence(one.description)}${choices}`;
    })
    .join("\n");
}

const optionTable = (options: readonly Option[]): string =>
  table(
    ["Option", "Meaning"],
    options.map((one) => {
      const choices = one.argChoices === undefined ? "" : ` One of ${one.argChoices.map(code).join(", ")}.`;
      const fallback =
        one.defaultValue === undefined || one.defaultValue === false || `${one.defaultValue}` === ""
          ? ""
          : ` Default: ${code(one.defaultValueDescription ?? `${one.defaultValue}`)}.`;
      return [code(one.flags), `${sentence(one.description)}${choices}${fallback}`];
    }),
  );

/** The text that `--help` prints below the options: examples and remarks. */
function textAfter(command: Command): string {
  const shown: string[] = [];
  const context = { error: false, write: (text: string) => void shown.push(text), command };
  (command as unknown as EventEmitter).emit("afterHelp", context);
  const text = shown.join("").replace(/^\n+|\s+$/g, "");
  if (text === "") return "";
  // The list of variables has a page of its own.
  if (text.includes("LATCHKEY_DATA_LISTEN")) return "The variables are listed under [configuration](configuration.md).";
  return `\`\`\`text\n${text}\n\`\`\``;
}

let program: Command | undefined;
// The program is complete when it begins to parse: keep it, and run nothing.
Command.prototype.parseAsync = async function keep(this: Command) {
  program = this;
  return this;
};
const written = process.umask();
await import("../../src/main.ts");
process.umask(written);
if (program === undefined) throw new Error("the program was not parsed");
process.stdout.write(cliPage(program));
process.exit(0);
