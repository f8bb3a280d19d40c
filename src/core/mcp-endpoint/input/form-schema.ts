import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../../dialect/json-fields.ts";

/** A form is not one that clients can show. */
export class FormMistake extends Error {
  override readonly name = "FormMistake";
}

const maxFields = 50;
const maxChoices = 500;
const formats = ["email", "uri", "date", "date-time"] as const;

/** Returns the schema of a form as clients take it: an object whose fields are flat. Throws `FormMistake`. */
export function readFormSchema(given: JsonValue | undefined): JsonObject {
  if (!isObject(given)) throw new FormMistake("`schema` must be an object");
  const { $schema, type = "object", properties, required = [], additionalProperties: _, ...unknown } = given;
  refuseUnknown(unknown, "schema");
  if (type !== "object") throw new FormMistake('`schema.type` must be "object"');
  if (!isObject(properties)) throw new FormMistake("`schema.properties` must be an object");
  const names = Object.keys(properties);
  if (names.length > maxFields) throw new FormMistake(`\`schema.properties\` must have at most ${maxFields} fields`);
  for (const name of names) checkField(properties[name], `schema.properties.${name.slice(0, 100)}`);
  const areKnown = isTexts(required) && required.every((name) => Object.hasOwn(properties, name));
  if (!areKnown) throw new FormMistake("`schema.required` must be a list of names of `schema.properties`");
  return {
    ...(typeof $schema === "string" && { $schema }),
    type,
    properties,
    ...(required.length > 0 && { required }),
  };
}

function checkField(field: JsonValue | undefined, at: string): void {
  if (!isObject(field)) throw new FormMistake(`\`${at}\` must be an object`);
  const { type, title, description, ...rest } = field;
  for (const [name, text] of Object.entries({ title, description })) {
    if (text !== undefined && typeof text !== "string") throw new FormMistake(`\`${at}.${name}\` must be text`);
  }
  switch (type) {
    case "string":
      checkText(rest, at);
      return;
    case "number":
    case "integer":
      checkNumber(rest, at);
      return;
    case "boolean": {
      const { default: usual, ...unknown } = rest;
      refuseUnknown(unknown, at);
      if (usual !== undefined && typeof usual !== "boolean")
        throw new FormMistake(`\`${at}.default\` must be a boolean`);
      return;
    }
    case "array":
      checkChoices(rest, at);
      return;
    default:
      throw new FormMistake(
        `\`${at}.type\` must be string, number, integer, boolean, or array with choices: forms are flat`,
      );
  }
}

function checkText({ default: usual, ...rest }: JsonObject, at: string): void {
  const choices = choicesOf(rest);
  if (usual !== undefined && typeof usual !== "string") throw new FormMistake(`\`${at}.default\` must be text`);
  if (choices === undefined) {
    const { minLength, maxLength, format, ...unknown } = rest;
    refuseUnknown(unknown, at);
    checkCounts({ minLength, maxLength }, at);
    if (format !== undefined && !formats.some((one) => one === format)) {
      throw new FormMistake(`\`${at}.format\` must be one of ${formats.join(", ")}`);
    }
    return;
  }
  const { enum: _, oneOf: __, enumNames, ...unknown } = rest;
  refuseUnknown(unknown, at);
  checkList(choices, `${at}.${"enum" in rest ? "enum" : "oneOf"}`);
  if (enumNames !== undefined && !(isTexts(enumNames) && enumNames.length === choices.length && "enum" in rest)) {
    throw new FormMistake(`\`${at}.enumNames\` must be a list of text, as long as \`enum\``);
  }
  if (usual !== undefined && !choices.includes(usual)) throw new FormMistake(`\`${at}.default\` must be a choice`);
}

function checkNumber({ minimum, maximum, default: usual, ...unknown }: JsonObject, at: string): void {
  refuseUnknown(unknown, at);
  for (const [name, value] of Object.entries({ minimum, maximum, default: usual })) {
    if (value !== undefined && typeof value !== "number") throw new FormMistake(`\`${at}.${name}\` must be a number`);
  }
}

function checkChoices({ items, minItems, maxItems, default: usual, ...unknown }: JsonObject, at: string): void {
  refuseUnknown(unknown, at);
  checkCounts({ minItems, maxItems }, at);
  const choices = isObject(items) ? choicesOf(items) : undefined;
  if (choices === undefined) throw new FormMistake(`\`${at}.items\` must have \`enum\` or \`anyOf\``);
  checkList(choices, `${at}.items`);
  if (usual !== undefined && !(isTexts(usual) && usual.every((one) => choices.includes(one)))) {
    throw new FormMistake(`\`${at}.default\` must be a list of choices`);
  }
}

/** Returns the values of a field with choices, some of which may be no text; undefined: it has none. */
export function choicesOf(field: JsonObject): readonly (JsonValue | undefined)[] | undefined {
  const { enum: values, oneOf, anyOf } = field;
  if (Array.isArray(values)) return values;
  const titled = oneOf ?? anyOf;
  if (!Array.isArray(titled)) return undefined;
  return titled.map((one) => (isObject(one) && typeof one["title"] === "string" ? one["const"] : undefined));
}

function checkList(choices: readonly (JsonValue | undefined)[], at: string): void {
  const isList = choices.length > 0 && choices.length <= maxChoices && choices.every((one) => typeof one === "string");
  if (!isList) throw new FormMistake(`\`${at}\` must have 1 to ${maxChoices} choices: text, or { const, title }`);
}

function checkCounts(counts: JsonObject | Readonly<Record<string, JsonValue | undefined>>, at: string): void {
  for (const [name, value] of Object.entries(counts)) {
    if (value === undefined || (typeof value === "number" && Number.isInteger(value) && value >= 0)) continue;
    throw new FormMistake(`\`${at}.${name}\` must be a whole number`);
  }
}

const isTexts = (value: JsonValue | undefined): value is string[] =>
  Array.isArray(value) && value.every((one) => typeof one === "string");

function refuseUnknown(unknown: JsonObject, at: string): void {
  const [name] = Object.keys(unknown);
  if (name !== undefined) throw new FormMistake(`\`${at}.${name.slice(0, 100)}\` is not part of a form`);
}
