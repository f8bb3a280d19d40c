import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  crowdedFolders,
  linesLike,
  longFiles,
  longFunctions,
  manyImports,
  repeatedTypes,
  root,
  sourceFiles,
  typesNamed,
} from "./shape.ts";

const source = sourceFiles("src");
const tests = sourceFiles("test");
const everything = [...source, ...tests, ...sourceFiles("bin")];

/** Files that put others together import more. */
const compositionRoots = [
  "src/broker/broker.ts",
  "src/cli/commands/commands.ts",
  "src/control-plane/plane.ts",
  "src/control-plane/services/services.ts",
  "src/sidecar.ts",
];
/** Names that are the same on purpose: each is local to its file. */
const localTypes = ["Options", "Methods"];
const participles = [
  ...["Added", "Answered", "Asked", "Begun", "Called", "Chosen", "Closed", "Counted", "Declared", "Described", "Done"],
  ...["Drawn", "Failed", "Filed", "Found", "Given", "Going", "Gone", "Granted", "Heard", "Held", "Joined", "Kept"],
  ...["Known", "Looked", "Made", "Measured", "Moved", "Named", "Opened", "Paused", "Read", "Received", "Said", "Seen"],
  ...["Sent", "Served", "Shown", "Signed", "Stored", "Taken", "Told", "Turned", "Used", "Waiting", "Wanted", "Written"],
];
const commentOpening = /(?:^|\s)(?:\/\/|\/\*\*?|\*) (?:Of|Who|Whoever|Whom|What of)\b/;
const oddWord = /(?:\/\/|^\s*\*|\/\*).*\b(?:whoever|whom|nobody|somebody|anew|in vain|amiss|let go of)\b/i;
const defaultOverKinds = /switch \([^)]*(?:kind|auth)\.case\)/;

/**
 * What a reader may rely on, and how many exceptions there are today. A limit only goes down. To argue for another
 * limit, change the row and say why in the commit.
 */
const limits: readonly (readonly [rule: string, exceptions: () => readonly string[], most: number])[] = [
  ["a folder has at most 30 files", () => crowdedFolders([...source, ...tests], 30), 0],
  ["a file has at most 400 lines", () => longFiles(source, 400), 0],
  ["a function has fewer than 150 lines", () => longFunctions(150), 0],
  ["a function has fewer than 100 lines", () => longFunctions(100), 5],
  [
    "a file has at most 25 imports, one that puts others together 35",
    () => manyImports(source, (path) => (compositionRoots.includes(path) ? 35 : 25)),
    0,
  ],
  ["a type name is declared once", () => repeatedTypes(source, localTypes), 1],
  ["a type is a noun", () => typesNamed(source, participles), 0],
  ["a comment begins with its subject", () => linesLike(everything, commentOpening), 0],
  ["a comment names persons and things", () => linesLike(source, oddWord), 3],
  ["fields are written one by one, not as a spread of a literal", () => linesLike(source, /\.\.\.\{ [a-z]/), 0],
  ["a switch over kinds has a case for each", () => switchesWithDefault(), 0],
  ["a test or its helper lies in a folder by subject", () => readdirSync(join(root, "test")).filter(isTest), 0],
];

const isTest = (name: string) => name.endsWith(".ts");

function switchesWithDefault(): string[] {
  return source.flatMap(({ path, lines }) =>
    lines.flatMap((line, i) => {
      if (!defaultOverKinds.test(line)) return [];
      const indent = line.length - line.trimStart().length;
      const end = lines.findIndex((other, k) => k > i && other.startsWith(`${" ".repeat(indent)}}`));
      return /default:(?!\s*return assertNever\()/.test(lines.slice(i, end).join("\n")) ? [`${path}:${i + 1}`] : [];
    }),
  );
}

it.each(limits)("%s", (_rule, exceptions, most) => {
  const found = exceptions();
  expect(found.length, `at most ${most}, found ${found.length}:\n${found.join("\n")}\n`).toBeLessThanOrEqual(most);
});
