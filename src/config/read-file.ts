import * as v from "valibot";
import { type Document, LineCounter, parseDocument, YAMLParseError } from "yaml";
import { suggestion } from "../base/similar.ts";
import { type ConfigFile, fileSchema } from "./file.ts";
import type { FileReader } from "./secrets.ts";
import type { Refuse } from "./values.ts";

/** `latchkey.yaml:7:5`: where something stands in the file, or what is nearest around it. */
export interface Locate {
  (path: readonly (string | number)[]): string;
  line(path: readonly (string | number)[]): number;
}

export interface ReadFile {
  readonly file: ConfigFile;
  readonly locate: Locate;
}

/** For a configuration without a file, which has no places. */
export const emptyFile: ReadFile = { file: {}, locate: Object.assign(() => "", { line: () => 0 }) };

/** The configuration file, or an empty one after everything that is wrong with it was said. */
export function readConfigFile({ path, files, refuse }: { path: string; files: FileReader; refuse: Refuse }): ReadFile {
  const lines = new LineCounter();
  let document: Document;
  let written: unknown;
  try {
    document = parseDocument(files.read(path).text, { lineCounter: lines });
    const [wrong] = document.errors;
    if (wrong !== undefined) throw wrong;
    written = document.toJS();
  } catch (error) {
    const reason =
      error instanceof YAMLParseError ? error.message.split("\n")[0] : (error as NodeJS.ErrnoException).code;
    refuse(`${path} cannot be read: ${reason}`);
    return emptyFile;
  }
  const locate = createLocate({ path, document, lines });
  if (written === null || written === undefined) {
    refuse(`${path} is empty: declare something in it, or write {} to declare nothing`);
    return emptyFile;
  }
  const result = v.safeParse(fileSchema, written);
  if (result.success) return { file: result.output, locate };
  for (const issue of result.issues) {
    const at = (issue.path ?? []).map(({ key }) => key as string | number);
    refuse(`${locate(at)}: ${v.getDotPath(issue) ?? "the file"}: ${sayIssue(issue)}`);
  }
  // What is wrong is left out, so that the rest is judged as well: the file is refused whatever comes of it.
  const rest = structuredClone(written);
  if (!result.issues.every((issue) => leftOut(rest, issue))) return { ...emptyFile, locate };
  const again = v.safeParse(fileSchema, rest);
  return { file: again.success ? again.output : {}, locate };
}

/** Takes the value that an issue is about out of the object that holds it; false: it is in none. */
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
      // A mistake in a key is shown at the key, one in an item at the item.
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

/** The key of a map that has this name. */
function pairIn(map: unknown, name: string | number | undefined): unknown {
  const { items } = Object(map) as { readonly items?: readonly unknown[] };
  const pair = items?.find((one) => Object((Object(one) as { key?: unknown }).key).value === name);
  return pair === undefined ? undefined : (pair as { readonly key?: unknown }).key;
}

const rangeOf = (node: unknown): readonly number[] | undefined => (Object(node) as { range?: readonly number[] }).range;

/** Valibot quotes what it received; a secret written where none belongs must not be shown. */
function sayIssue(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "strict_object" && issue.expected === "never") {
    return `is not a key of latchkey's configuration${suggestion(keyOf(issue), knownKeys(issue))}`;
  }
  if (issue.type === "strict_object" && issue.received === "undefined") return "is required";
  if (issue.kind === "schema" && issue.message.startsWith("Invalid"))
    return `must be ${issue.expected ?? "something else"}`;
  return issue.message.startsWith("Invalid")
    ? `must be ${issue.requirement ?? issue.expected ?? "something else"}`
    : issue.message;
}

const keyOf = ({ path }: v.BaseIssue<unknown>): string => String(path?.at(-1)?.key ?? "");

interface Schema {
  readonly type?: string;
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly item?: Schema;
  readonly wrapped?: Schema;
  readonly pipe?: readonly Schema[];
}

/** The keys that the object has around the one that is not known. */
function knownKeys({ path }: v.BaseIssue<unknown>): string[] {
  let schema: Schema | undefined = bare(fileSchema as Schema);
  for (const { key } of path?.slice(0, -1) ?? []) {
    schema = bare(typeof key === "number" ? schema?.item : schema?.entries?.[String(key)]);
  }
  return Object.keys(schema?.entries ?? {});
}

/** Without what only says that it may be absent, or adds to it. */
function bare(schema: Schema | undefined): Schema | undefined {
  if (schema?.entries !== undefined || schema?.item !== undefined) return schema;
  return schema?.wrapped === undefined ? schema : bare(schema.wrapped);
}
