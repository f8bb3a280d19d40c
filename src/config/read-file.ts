import * as v from "valibot";
import { type Document, LineCounter } from "yaml";
import { describeYamlError, type FilePath, parseYaml, pathText, positionIn } from "../base/yaml-places.ts";
import { type ConfigFile, fileSchema } from "./file.ts";
import { describeIssue, listsInPlaceOfMaps } from "./file-issue.ts";
import type { FileReader } from "./secrets.ts";
import { describeUnreadable } from "./unreadable.ts";
import type { Refuse } from "./values.ts";

/** Returns the place of a value in the file, or of its nearest parent: `latchkey.yaml:7:5`. */
export interface Locate {
  (path: FilePath): string;
  line(path: FilePath): number;
}

export interface ReadFile {
  readonly file: ConfigFile;
  /** The text of the file; undefined if there is none. */
  readonly text?: string;
  readonly locate: Locate;
}

/** A configuration without a file, which has no places. */
export const emptyFile: ReadFile = { file: {}, locate: Object.assign(() => "", { line: () => 0 }) };

/** Adds the place in the file to a mistake that begins with a path in the file: `retention.logs: …`. */
export const withPlace =
  ({ file, locate }: ReadFile, refuse: Refuse): Refuse =>
  (message) => {
    const [, dotted = ""] = /^([a-z_]+(?:\.[a-z0-9_]+)+): /.exec(message) ?? [];
    const path = dotted.split(".");
    if (!Object.hasOwn(file, path[0] ?? "")) return refuse(message);
    refuse(`${locate(path)}: ${pathText(path)}${message.slice(dotted.length)}`);
  };

interface ReadOptions {
  readonly path: string;
  readonly files: FileReader;
  readonly refuse: Refuse;
  /** Reports a file without a value; a mistake unless something else is named. */
  readonly reportEmpty?: Refuse;
}

/** Reads the configuration file. After reporting all mistakes, returns an empty file, or the valid parts. */
export function readConfigFile({ path, files, refuse, reportEmpty = refuse }: ReadOptions): ReadFile {
  const lines = new LineCounter();
  let text: string;
  try {
    ({ text } = files.read(path));
  } catch (error) {
    refuse(describeUnreadable(path, error));
    return emptyFile;
  }
  const document = parseYaml(text, lines);
  const [wrong] = document.errors;
  if (wrong !== undefined) {
    const { line, col } = lines.linePos(wrong.pos[0]);
    refuse(`${path}:${line}:${col}: the file cannot be read: ${describeYamlError(wrong, text)}`);
    return emptyFile;
  }
  let written: unknown;
  try {
    written = document.toJS();
  } catch (error) {
    // A reference to an anchor that the file does not have, or too many references.
    if (!(error instanceof ReferenceError)) throw error;
    refuse(`${path} cannot be read: ${error.message}`);
    return emptyFile;
  }
  const locate = createLocate({ path, document, lines });
  if (written === null || written === undefined) {
    reportEmpty(`${path} is empty: declare something in it, or write {} to declare nothing`);
    return { ...emptyFile, text };
  }
  const lists = listsInPlaceOfMaps(written);
  for (const at of lists) refuse(`${locate(at)}: ${pathText(at) || "the file"}: must be a map of keys`);
  if (lists.length > 0) return { ...emptyFile, locate };
  const result = v.safeParse(fileSchema, written);
  if (result.success) return { file: result.output, text, locate };
  for (const issue of result.issues) {
    const at = (issue.path ?? []).map(({ key }) => key as string | number);
    refuse(`${locate(at)}: ${pathText(at) || "the file"}: ${describeIssue(issue)}`);
  }
  // Leave the invalid values out and check the rest as well. The file is refused anyway.
  const rest = structuredClone(written);
  if (!result.issues.every((issue) => leftOut(rest, issue))) return { ...emptyFile, locate };
  const again = v.safeParse(fileSchema, rest);
  return { file: again.success ? again.output : {}, locate };
}

/** Removes the invalid value from its object; returns false if it is not in an object. */
function leftOut(written: unknown, { path }: Pick<v.BaseIssue<unknown>, "path">): boolean {
  const keys = (path ?? []).map(({ key }) => String(key));
  const last = keys.pop();
  const holder = keys.reduce<unknown>(
    (value, key) => (isRecord(value) || Array.isArray(value) ? Object(value)[key] : undefined),
    written,
  );
  if (last === undefined || !isRecord(holder) || !Object.hasOwn(holder, last)) return false;
  delete holder[last];
  return true;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

interface Located {
  readonly path: string;
  readonly document: Document;
  readonly lines: LineCounter;
}

function createLocate({ path, document, lines }: Located): Locate {
  const locate = (at: FilePath) => {
    const { line, column } = positionIn(document, lines, at);
    return `${path}:${line}:${column}`;
  };
  return Object.assign(locate, { line: (at: FilePath) => positionIn(document, lines, at).line });
}
