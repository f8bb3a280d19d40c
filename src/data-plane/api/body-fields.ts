import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Fault, Mistake } from "../../base/fault.ts";
import { isObject, type JsonFields, type ReadFindings, readFields } from "../../core/dialect/json-fields.ts";
import { invalid, misspelledIn } from "../server/mistakes.ts";
import type { FieldReport } from "../server/routes.ts";
import { type FieldShape, listed, type ValuesOf } from "./field-shape.ts";

/** A field of a JSON body: its shape as data, and the function that reads it. */
export interface BodyField<T> extends FieldShape {
  readonly read: (fields: JsonFields, name: string) => T;
}

export type BodySchema = Readonly<Record<string, BodyField<unknown>>>;

/** Text; undefined if absent. */
const text: BodyField<string | undefined> = { type: "string", read: (fields, name) => fields.text(name) };

const requiredText: BodyField<string> = {
  type: "string",
  required: true,
  read: (fields, name) => fields.requiredText(name),
};

function boundedText(maxLength: number): BodyField<string | undefined> {
  return {
    type: "string",
    maxLength,
    read(fields, name) {
      const value = fields.text(name);
      if (value !== undefined && value.length > maxLength) {
        fields.refuse(name, `must have at most ${maxLength} characters`);
      }
      return value;
    },
  };
}

const flag: BodyField<boolean | undefined> = {
  type: "boolean",
  read(fields, name) {
    const value = fields.raw(name) ?? undefined;
    if (value === undefined || typeof value === "boolean") return value;
    fields.refuse(name, "must be true or false");
    return undefined;
  },
};

function integer(bounds: { readonly min: number; readonly max: number; readonly fallback: number }): BodyField<number> {
  const { min, max, fallback } = bounds;
  return {
    type: "integer",
    ...bounds,
    read(fields, name) {
      const value = fields.raw(name) ?? fallback;
      if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
      fields.refuse(name, `must be a whole number from ${min} to ${max}`);
      return fallback;
    },
  };
}

/** Reads one of a few words. */
function choice<const T extends string>(...oneOf: readonly T[]): BodyField<T | undefined> {
  return {
    type: "string",
    oneOf,
    read(fields, name) {
      const value = fields.text(name);
      const found = oneOf.find((one) => one === value);
      if (value !== undefined && found === undefined) fields.refuse(name, `must be ${listed(oneOf)}`);
      return found;
    },
  };
}

/** Any JSON value, null included. */
const any: BodyField<JsonValue | undefined> = { type: "any", read: (fields, name) => fields.raw(name) };

/** An object with free keys. */
const json: BodyField<JsonObject | undefined> = { type: "object", read: (fields, name) => fields.json(name) };

const requiredJson: BodyField<JsonObject> = {
  type: "object",
  required: true,
  read(fields, name) {
    if (!fields.has(name)) fields.refuse(name, "is required");
    return fields.json(name) ?? {};
  },
};

const texts: BodyField<string[]> = {
  type: "array",
  items: { type: "string" },
  read(fields, name) {
    const value = fields.raw(name) ?? [];
    if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value;
    fields.refuse(name, "must be an array of text");
    return [];
  },
};

/** An object with texts as values, by key. */
const textMap: BodyField<Record<string, string> | undefined> = {
  type: "object",
  values: { type: "string" },
  read: (fields, name) => fields.textMap(name),
};

/** An object with known fields. */
function object<S extends BodySchema>(schema: S): BodyField<ValuesOf<S> | undefined> {
  return { type: "object", fields: schema, read: (fields, name) => readObject(fields.object(name), schema) };
}

/** An object of objects with known fields, by key. */
function objectMap<S extends BodySchema>(schema: S): BodyField<Record<string, ValuesOf<S>>> {
  return {
    type: "object",
    values: { type: "object", fields: schema },
    read(fields, name) {
      const value = fields.raw(name);
      const all = fields.object(name);
      const keys = isObject(value) ? Object.keys(value) : [];
      return Object.fromEntries(
        keys.flatMap((key) => {
          const one = readObject(all?.object(key), schema);
          return one === undefined ? [] : [[key, one]];
        }),
      );
    },
  };
}

/** The kinds of fields in the tables of routes. */
export const inBody = {
  ...{
    text,
    requiredText,
    boundedText,
    flag,
    integer,
    choice,
    any,
    json,
    requiredJson,
    texts,
    textMap,
    object,
    objectMap,
  },
};

/** Returns the fault for a mistake that only the route can find. */
export const invalidBody = (message: string, path: readonly string[]): Fault =>
  invalid("invalid_body", "the body", [{ path, message }]);

/** Records a mistake in a field or a parameter. */
export type RefuseField = (name: string, message: string) => void;

/** Reads a body by its schema. Throws one fault that lists everything that is wrong. */
export function readBody<S extends BodySchema>(
  body: JsonObject,
  schema: S,
  report: FieldReport,
  check: (values: ValuesOf<S>, refuse: RefuseField) => void,
): ValuesOf<S> {
  function read(findings: ReadFindings) {
    const fields = readFields(body, { path: [], findings });
    const values = valuesIn(fields, schema);
    check(values, (name, message) => fields.refuse(name, message));
    return values;
  }
  const findings: ReadFindings = { mistakes: [], ignored: [] };
  const values = read(findings);
  const { mistakes, ignored } = findings;
  if (ignored.length > 0 && (mistakes.length > 0 || report.refusesMisspelled)) {
    // Names are compared only here: a right body is read once.
    const misspelled: Mistake[] = [];
    read({ mistakes: [], ignored: [], misspelled });
    if (misspelled.length > 0) throw misspelledIn("invalid_body", misspelled, mistakes);
  }
  if (mistakes.length > 0) throw invalid("invalid_body", "the body", mistakes);
  report.ignore(ignored);
  return values;
}

function readObject<S extends BodySchema>(fields: JsonFields | undefined, schema: S): ValuesOf<S> | undefined {
  return fields === undefined ? undefined : valuesIn(fields, schema);
}

function valuesIn<S extends BodySchema>(fields: JsonFields, schema: S): ValuesOf<S> {
  const values = Object.fromEntries(Object.entries(schema).map(([name, field]) => [name, field.read(fields, name)]));
  fields.ignoreRest();
  // Each field of the schema was read by its own function.
  return values as ValuesOf<S>;
}
