import type { Command } from "commander";
import { expect, it } from "vitest";
import { metricTable } from "../../src/base/metrics/metrics.ts";
import { createProgram } from "../../src/cli/program.ts";
import { memoryTerminal } from "../cases/cli/memory-terminal.ts";
import { codeBlocksOf, markdownFiles, proseOf, readText } from "../support/documents/markdown.ts";

const program = createProgram({
  terminal: memoryTerminal(),
  act: () => async () => {},
  ownCommands: [],
  keepExitCode: () => {},
});
/** Commands that the process itself adds; they are tested where they are run. */
const own = new Set([...readText("src/main.ts").matchAll(/\bname: "([a-z]+)"/g)].map(([, name = ""]) => name));

/** The command lines of a page: in blocks of a shell, and as code in its prose. */
function commandLines(text: string): readonly string[] {
  const page = text.replaceAll(/<[\w. -]+>/g, "VALUE");
  const shell = codeBlocksOf(page).filter(({ language }) => ["sh", "console"].includes(language));
  const inBlocks = shell.flatMap((block) => [
    ...block.text.matchAll(/(?:^|&& |\| )(?:[A-Z_]+=\S+ )*(?:npm run (?:-s )?latchkey --|latchkey) ([^\n|>&;#]+)/gm),
  ]);
  const inProse = proseOf(page).matchAll(/`latchkey ([^`\n|>&;#]+)`/g);
  return [...inBlocks, ...inProse]
    .map(([, line = ""]) => line.trim())
    .filter((line) => line !== "…" && !isMessage(line));
}

/** Whether the words are a message of Latchkey's, such as "latchkey is starting". */
const isMessage = (line: string): boolean => line.startsWith("is ");

/** What is wrong with a command line: a subcommand or an option that does not exist. */
function mistakeIn(line: string): string | undefined {
  const words = line.replaceAll(/"[^"]*"|'[^']*'|\$\([^)]*\)/g, "x").split(/\s+/);
  let command: Command = program;
  for (const word of words) {
    if (word.startsWith("-")) continue;
    const below: Command | undefined = command.commands.find(
      (one) => one.name() === word || one.aliases().includes(word),
    );
    if (below !== undefined) command = below;
    else if (command === program && own.has(word)) return undefined;
    else if (command.commands.length > 0 && !isValue(words, word) && command.registeredArguments.length === 0)
      return `no command ${word}`;
  }
  const known = new Set(
    [command, ...parentsOf(command)].flatMap(({ options }) => options.flatMap(({ long, short }) => [long, short])),
  );
  const unknown = words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.split("=")[0] ?? "");
  return unknown.filter((word) => word !== "--help" && word !== "-h" && !known.has(word))[0];
}

/** Whether the word is the value of the option before it. */
const isValue = (words: readonly string[], word: string): boolean =>
  /^--?[a-z]/.test(words[words.indexOf(word) - 1] ?? "");

const parentsOf = ({ parent }: Command): readonly Command[] => (parent === null ? [] : [parent, ...parentsOf(parent)]);

it("names only commands and options that exist, in every page", () => {
  const pages = markdownFiles().filter((path) => path !== "docs/cli.md");
  const lines = pages.flatMap((page) => commandLines(readText(page)).map((line) => ({ page, line })));
  expect(lines.length).toBeGreaterThan(100);
  const wrong = lines.flatMap(({ page, line }) => {
    const mistake = mistakeIn(line);
    return mistake === undefined ? [] : [`${page}: ${line}: ${mistake}`];
  });
  expect(wrong).toEqual([]);
});

it("names only metrics that exist, in every page", () => {
  const known = new Set<string>(Object.values(metricTable).map(({ name }) => name));
  const unknown = markdownFiles().flatMap((page) =>
    [...readText(page).matchAll(/\blatchkey_[a-z0-9_]+\b/g)]
      .filter(([name]) => !known.has(name))
      .map(([name]) => `${page}: ${name}`),
  );
  expect(unknown).toEqual([]);
});
