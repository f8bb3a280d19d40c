import type { QueryReader } from "../server/query.ts";
import { type FieldShape, listed, type ValuesOf } from "./field-shape.ts";

/** A parameter of a query: its shape as data, and the function that reads it. */
export interface QueryField<T> extends FieldShape {
  readonly read: (query: QueryReader, name: string) => T;
}

export type QuerySchema = Readonly<Record<string, QueryField<unknown>>>;

/** Text; empty if absent. */
const text: QueryField<string> = { type: "string", read: (query, name) => query.text(name) ?? "" };

/** Text; undefined if absent. */
const optionalText: QueryField<string | undefined> = { type: "string", read: (query, name) => query.text(name) };

const requiredText: QueryField<string> = {
  type: "string",
  required: true,
  read(query, name) {
    const value = query.text(name);
    if (value === undefined) query.refuse(name, "is required");
    return value ?? "";
  },
};

function integer(bounds: { readonly min: number; readonly max: number }): QueryField<number | undefined> {
  return { type: "integer", ...bounds, read: (query, name) => query.integer(name, bounds) };
}

function flag(fallback = false): QueryField<boolean> {
  return { type: "boolean", fallback, read: (query, name) => query.flag(name, fallback) };
}

/** Reads one of a few words. */
function choice<const T extends string>(...oneOf: readonly T[]): QueryField<T | undefined> {
  return {
    type: "string",
    oneOf,
    read(query, name) {
      const value = query.text(name);
      const found = oneOf.find((one) => one === value);
      if (value !== undefined && found === undefined) query.refuse(name, `must be ${listed(oneOf)}`);
      return found;
    },
  };
}

/** Values of a repeated parameter, or with commas between. */
const list: QueryField<readonly string[]> = {
  type: "array",
  items: { type: "string" },
  read: (query, name) => query.list(name),
};

/** A list of a few words. */
function choices<const T extends string>(...oneOf: readonly T[]): QueryField<readonly string[]> {
  return {
    type: "array",
    items: { type: "string", oneOf },
    read(query, name) {
      const values = query.list(name);
      if (values.some((value) => !oneOf.some((one) => one === value))) query.refuse(name, `must be ${listed(oneOf)}`);
      return values;
    },
  };
}

/** `name[key]=value`, by key. */
const map: QueryField<Readonly<Record<string, string>>> = {
  type: "object",
  read: (query, name) => query.map(name),
};

/** The kinds of parameters in the tables of routes. */
export const inQuery = { text, optionalText, requiredText, integer, flag, choice, list, choices, map };

export function readQueryValues<Q extends QuerySchema>(schema: Q, query: QueryReader): ValuesOf<Q> {
  const entries = Object.entries(schema).map(([name, field]) => [name, field.read(query, name)]);
  // Each parameter of the schema was read by its own function.
  return Object.fromEntries(entries) as ValuesOf<Q>;
}
