import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { CannotAttach } from "./scheme.ts";

/** The values that a text of a provider's description may name, by the first part of their name. */
export type Values = Readonly<Record<string, JsonValue>>;

/** `${credentials.key.id}`, `${iat}`. */
const placeholder = /\$\{([^}]*)\}/g;

/**
 * Text of a provider's description with the values it names. What was put in is never looked at again, so that a
 * value that looks like a name stays what it is. A text that is a name alone becomes the value itself.
 */
export function fill(template: string, values: Values): JsonValue {
  const [whole] = [...template.matchAll(placeholder)];
  if (whole?.[0] === template) return required(whole[1] ?? "", values);
  return template.replaceAll(placeholder, (_, name: string) => textOf(name, values));
}

export function fillText(template: string, values: Values): string {
  return template.replaceAll(placeholder, (_, name: string) => textOf(name, values));
}

/** The texts within, at any depth. Names of fields are the provider's own. */
export function fillAll(template: JsonObject, values: Values): JsonObject {
  const filled = (value: JsonValue): JsonValue => {
    if (typeof value === "string") return fill(value, values);
    if (Array.isArray(value)) return value.map(filled);
    return isObject(value) ? fillAll(value, values) : value;
  };
  return Object.fromEntries(Object.entries(template).map(([name, value]) => [name, filled(value)]));
}

/** The value at a dotted path; undefined where there is none. */
export function find(path: string, values: Values): JsonValue | undefined {
  let found: JsonValue | undefined = values;
  for (const step of path.split(".")) {
    // Own fields alone: `constructor` is a field like any other.
    found = isObject(found) && Object.hasOwn(found, step) ? found[step] : undefined;
  }
  return found ?? undefined;
}

function required(name: string, values: Values): JsonValue {
  const value = find(name, values);
  if (value === undefined || value === "") throw new CannotAttach(`the provider wants ${name}, which is missing`);
  return value;
}

function textOf(name: string, values: Values): string {
  const value = required(name, values);
  if (typeof value === "object") throw new CannotAttach(`the provider wants ${name} as text, and it is none`);
  return String(value);
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
