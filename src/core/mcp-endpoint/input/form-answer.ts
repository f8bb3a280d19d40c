import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../../dialect/json-fields.ts";
import { choicesOf } from "./form-schema.ts";

/** An answer is not one to its question. The message names fields, never their values. */
export class AnswerMistake extends Error {
  override readonly name = "AnswerMistake";
}

/** Returns the fields of a form that were filled in. Fields that the form does not have are left out. */
export function readFormContent(content: JsonValue | undefined, schema: JsonObject): JsonObject {
  if (!isObject(content)) throw new AnswerMistake("`content` must be an object");
  const { properties, required = [] } = schema;
  const fields = isObject(properties) ? properties : {};
  const read: JsonObject = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = Object.hasOwn(content, name) ? content[name] : undefined;
    if (value === undefined || value === null) {
      if (Array.isArray(required) && required.includes(name)) throw mistake(name, "is required");
      continue;
    }
    const wrong = isObject(field) ? mistakeIn(value, field) : undefined;
    if (wrong !== undefined) throw mistake(name, wrong);
    read[name] = value;
  }
  return read;
}

const mistake = (name: string, what: string) => new AnswerMistake(`\`content.${name.slice(0, 100)}\` ${what}`);

function mistakeIn(value: JsonValue, field: JsonObject): string | undefined {
  switch (field["type"]) {
    case "boolean":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "integer":
    case "number":
      return mistakeInNumber(value, field);
    case "array":
      return mistakeInList(value, field);
    default:
      return mistakeInText(value, field);
  }
}

function mistakeInNumber(value: JsonValue, { type, minimum, maximum }: JsonObject): string | undefined {
  if (typeof value !== "number") return "must be a number";
  if (type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (typeof minimum === "number" && value < minimum) return `must be at least ${minimum}`;
  return typeof maximum === "number" && value > maximum ? `must be at most ${maximum}` : undefined;
}

function mistakeInList(value: JsonValue, { items, minItems, maxItems }: JsonObject): string | undefined {
  const choices = isObject(items) ? choicesOf(items) : [];
  if (!Array.isArray(value) || !value.every((one) => choices?.includes(one))) return "must be a list of its choices";
  return mistakeInCount(value.length, { min: minItems, max: maxItems, of: "choices" });
}

function mistakeInText(value: JsonValue, field: JsonObject): string | undefined {
  if (typeof value !== "string") return "must be text";
  const choices = choicesOf(field);
  if (choices !== undefined) return choices.includes(value) ? undefined : "must be one of its choices";
  const { minLength, maxLength, format } = field;
  // JSON Schema counts characters, not UTF-16 units.
  const wrong = mistakeInCount([...value].length, { min: minLength, max: maxLength, of: "characters" });
  if (wrong !== undefined) return wrong;
  const fits = typeof format === "string" ? formats.get(format) : undefined;
  return fits === undefined || fits(value) ? undefined : `must be in the format ${String(format)}`;
}

interface CountBounds {
  readonly min: JsonValue | undefined;
  readonly max: JsonValue | undefined;
  readonly of: string;
}

function mistakeInCount(count: number, { min, max, of }: CountBounds): string | undefined {
  if (typeof min === "number" && count < min) return `must have at least ${min} ${of}`;
  return typeof max === "number" && count > max ? `must have at most ${max} ${of}` : undefined;
}

const isDate = (text: string): boolean => {
  const at = new Date(`${text}T00:00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text);
};

const formats: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ["email", (text: string) => /^[^\s@]+@[^\s@]+$/.test(text)],
  ["uri", (text: string) => URL.canParse(text)],
  ["date", isDate],
  ["date-time", (text: string) => /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d/.test(text) && !Number.isNaN(Date.parse(text))],
]);
