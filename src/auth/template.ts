import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { CannotAttach } from "./scheme.ts";

/** Values for placeholders in a provider's description, by the first part of their names. */
export type Values = Readonly<Record<string, JsonValue>>;

/** `${credentials.key.id}`, `${iat}`. */
const placeholder = /\$\{([^}]*)\}/g;

/**
 * Fills values into text of a provider's description. Inserted values are not expanded again, even if they look like
 * placeholders. Text that is a single placeholder becomes the value itself.
 */
export function fill(template: string, values: Values): JsonValue {
  const [whole] = [...template.matchAll(placeholder)];
  if (whole?.[0] === template) return required(whole[1] ?? "", values);
  return template.replaceAll(placeholder, (_, name: string) => textOf(name, values));
}

export function fillText(template: string, values: Values): string {
  return template.replaceAll(placeholder, (_, name: string) => textOf(name, values));
}

/** Fills all text, at any depth. Field names stay unchanged. */
export function fillAll(template: JsonObject, values: Values): JsonObject {
  const filled = (value: JsonValue): JsonValue => {
    if (typeof value === "string") return fill(value, values);
    if (Array.isArray(value)) return value.map(filled);
    return isObject(value) ? fillAll(value, values) : value;
  };
  return Object.fromEntries(Object.entries(template).map(([name, value]) => [name, filled(value)]));
}

/** Returns the value at a dotted path; undefined if there is none. */
export function find(path: string, values: Values): JsonValue | undefined {
  let found: JsonValue | undefined = values;
  for (const step of path.split(".")) {
    // Own fields only: `constructor` is an ordinary field name here.
    found = isObject(found) && Object.hasOwn(found, step) ? found[step] : undefined;
  }
  return found ?? undefined;
}

function required(name: string, values: Values): JsonValue {
  const value = find(name, values);
  if (value === undefined || value === "") throw new CannotAttach(`the provider requires ${name}, which is missing`);
  return value;
}

function textOf(name: string, values: Values): string {
  const value = required(name, values);
  if (typeof value === "object") throw new CannotAttach(`the provider requires ${name} as text`);
  return String(value);
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
