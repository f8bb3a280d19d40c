import type * as v from "valibot";
import { suggestion } from "../base/similar.ts";
import { fileSchema } from "./file.ts";

/** Describes what a value of the file must be. Never quotes the value, which may be a misplaced secret. */
export function describeIssue(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "strict_object" && issue.expected === "never") {
    return `unknown key${suggestion(keyOf(issue), knownKeys(issue))}`;
  }
  if (issue.type === "strict_object" && issue.received === "undefined") return "is required";
  if (!issue.message.startsWith("Invalid")) return issue.message;
  if (issue.kind === "schema") return `must be ${describeType(issue.expected)}`;
  return describeLimit(issue);
}

const typeWords: Readonly<Record<string, string>> = {
  Object: "a map of keys",
  Array: "a list",
  string: "text",
  number: "a number",
  boolean: "true or false",
};

/** Valibot writes a type as `Array`, and several as `("testing" | "production")`. */
function describeType(expected: string | null): string {
  const types = (expected ?? "something else").replace(/^\(|\)$/g, "").split(" | ");
  const words = types.map((type) => typeWords[type] ?? type.replace(/^"|"$/g, ""));
  return words.length > 1 && types.every((type) => type.startsWith('"'))
    ? `one of ${words.join(", ")}`
    : words.join(" or ");
}

function describeLimit({ type, requirement, expected }: v.BaseIssue<unknown>): string {
  if (type === "min_value") return `must be at least ${requirement}`;
  if (type === "max_value") return `must be at most ${requirement}`;
  if (type === "min_length") return `must be no shorter than ${requirement}`;
  if (type === "max_length") return `must be no longer than ${requirement}`;
  if (type === "integer") return "must be a whole number";
  return `must be ${expected ?? "something else"}`;
}

const keyOf = ({ path }: v.BaseIssue<unknown>): string => String(path?.at(-1)?.key ?? "");

interface IssueSchema {
  readonly type?: string;
  readonly entries?: Readonly<Record<string, IssueSchema>>;
  readonly item?: IssueSchema;
  readonly wrapped?: IssueSchema;
  readonly pipe?: readonly IssueSchema[];
}

/** Returns the known keys of the map with the unknown key. */
function knownKeys({ path }: v.BaseIssue<unknown>): string[] {
  let schema: IssueSchema | undefined = unwrap(fileSchema as IssueSchema);
  for (const { key } of path?.slice(0, -1) ?? []) {
    schema = unwrap(typeof key === "number" ? schema?.item : schema?.entries?.[String(key)]);
  }
  return Object.keys(schema?.entries ?? {});
}

/**
 * The paths of lists that stand where the file has maps. Valibot takes a list for a map without keys, so that a
 * misplaced dash would leave out all that follows it.
 */
export function listsInPlaceOfMaps(
  written: unknown,
  at: readonly (string | number)[] = [],
  known: IssueSchema | undefined = fileSchema as IssueSchema,
): (readonly (string | number)[])[] {
  const schema = unwrap(known);
  if (Array.isArray(written)) {
    if (schema?.entries !== undefined) return [at];
    return written.flatMap((item, i) => listsInPlaceOfMaps(item, [...at, i], schema?.item));
  }
  if (typeof written !== "object" || written === null || schema?.entries === undefined) return [];
  const { entries } = schema;
  return Object.entries(written).flatMap(([key, value]) =>
    Object.hasOwn(entries, key) ? listsInPlaceOfMaps(value, [...at, key], entries[key]) : [],
  );
}

/** Returns the schema inside wrappers such as `optional`. */
function unwrap(schema: IssueSchema | undefined): IssueSchema | undefined {
  if (schema?.entries !== undefined || schema?.item !== undefined) return schema;
  return schema?.wrapped === undefined ? schema : unwrap(schema.wrapped);
}
