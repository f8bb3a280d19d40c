import * as v from "valibot";
import { parse as parseYaml, YAMLParseError } from "yaml";
import { type ConfigFile, fileSchema } from "./file.ts";
import type { FileReader } from "./secrets.ts";
import type { Refuse } from "./values.ts";

/** The configuration file, or an empty one after everything that is wrong with it was said. */
export function readConfigFile({
  path,
  files,
  refuse,
}: {
  path: string;
  files: FileReader;
  refuse: Refuse;
}): ConfigFile {
  let written: unknown;
  try {
    written = parseYaml(files.read(path).text);
  } catch (error) {
    const reason =
      error instanceof YAMLParseError ? error.message.split("\n")[0] : (error as NodeJS.ErrnoException).code;
    refuse(`${path} cannot be read: ${reason}`);
    return {};
  }
  const result = v.safeParse(fileSchema, written ?? {});
  if (result.success) return result.output;
  for (const issue of result.issues) refuse(`${path}: ${v.getDotPath(issue) ?? "the file"}: ${sayIssue(issue)}`);
  // What is wrong is left out, so that the rest is judged as well: the file is refused whatever comes of it.
  const rest = structuredClone(written);
  if (!result.issues.every((issue) => leftOut(rest, issue))) return {};
  const again = v.safeParse(fileSchema, rest);
  return again.success ? again.output : {};
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

/** Valibot quotes what it received; a secret written where none belongs must not be shown. */
function sayIssue(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "strict_object" && issue.expected === "never") return "is not a key of latchkey's configuration";
  if (issue.kind === "schema" && issue.message.startsWith("Invalid"))
    return `must be ${issue.expected ?? "something else"}`;
  return issue.message.startsWith("Invalid")
    ? `must be ${issue.requirement ?? issue.expected ?? "something else"}`
    : issue.message;
}
