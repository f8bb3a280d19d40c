import * as v from "valibot";
import { type Document, LineCounter, parseDocument, type YAMLError } from "yaml";
import { type ConfigFile, fileSchema } from "./file.ts";
import { describeIssue, listsInPlaceOfMaps } from "./file-issue.ts";
import type { FileReader } from "./secrets.ts";
import { describeUnreadable } from "./unreadable.ts";
import type { Refuse } from "./values.ts";

/** Returns the place of a value in the file, or of its nearest parent: `latchkey.yaml:7:5`. */
export interface Locate {
  (path: readonly (string | number)[]): string;
  line(path: readonly (string | number)[]): number;
}

export interface ReadFile {
  readonly file: ConfigFile;
  readonly locate: Locate;
}

/** A configuration without a file, which has no places. */
export const emptyFile: ReadFile = { file: {}, locate: Object.assign(() => "", { line: () => 0 }) };

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
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
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
    return emptyFile;
  }
  const lists = listsInPlaceOfMaps(written);
  for (const at of lists) refuse(`${locate(at)}: ${at.join(".") || "the file"}: must be a map of keys`);
  if (lists.length > 0) return { ...emptyFile, locate };
  const result = v.safeParse(fileSchema, written);
  if (result.success) return { file: result.output, locate };
  for (const issue of result.issues) {
    const at = (issue.path ?? []).map(({ key }) => key as string | number);
    refuse(`${locate(at)}: ${v.getDotPath(issue) ?? "the file"}: ${describeIssue(issue)}`);
  }
  // Leave the invalid values out and check the rest as well. The file is refused anyway.
  const rest = structuredClone(written);
  if (!result.issues.every((issue) => leftOut(rest, issue))) return { ...emptyFile, locate };
  const again = v.safeParse(fileSchema, rest);
  return { file: again.success ? again.output : {}, locate };
}

/** Improves messages of the parser, which names neither a duplicate key nor the remedy for two documents. */
function describeYamlError({ code, message, pos }: YAMLError, text: string): string {
  const [name] = /^[\w.-]+/.exec(text.slice(pos[0])) ?? [];
  if (code === "DUPLICATE_KEY" && name !== undefined) return `the key "${name}" is there twice`;
  if (code === "MULTIPLE_DOCS") return "a second document begins here (---); the file must have one";
  return message;
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
  function offsetOf(at: readonly (string | number)[]): number {
    for (let length = at.length; length > 0; length -= 1) {
      const [parent, last] = [at.slice(0, length - 1), at[length - 1]];
      // A mistake in a value is shown at its key, one in a list item at the item.
      const pair = pairIn(parent.length === 0 ? document.contents : document.getIn(parent, true), last);
      const node = pair ?? document.getIn(at.slice(0, length), true);
      const start = rangeOf(node)?.[0];
      if (start !== undefined) return start;
    }
    return 0;
  }
  const positionOf = (at: readonly (string | number)[]) => lines.linePos(offsetOf(at));
  const locate = (at: readonly (string | number)[]) => {
    const { line, col } = positionOf(at);
    return `${path}:${Math.max(1, line)}:${Math.max(1, col)}`;
  };
  return Object.assign(locate, { line: (at: readonly (string | number)[]) => positionOf(at).line });
}

/** Returns the node of the key with this name. */
function pairIn(map: unknown, name: string | number | undefined): unknown {
  const { items } = Object(map) as { readonly items?: readonly unknown[] };
  const pair = items?.find((one) => Object((Object(one) as { key?: unknown }).key).value === name);
  return pair === undefined ? undefined : (pair as { readonly key?: unknown }).key;
}

const rangeOf = (node: unknown): readonly number[] | undefined => (Object(node) as { range?: readonly number[] }).range;
