import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import type { Mistake } from "../base/fault.ts";
import { suggestion } from "../base/similar.ts";

type KeyPath = readonly string[];

/**
 * Finds the values that do not fit a message: unknown keys, and values of another type. The decoder stops at the first,
 * and names neither its place nor a similar key. Messages never quote a value, which may be a misplaced secret.
 */
export function fieldMistakes(schema: DescMessage, json: unknown, at: KeyPath = []): Mistake[] {
  if (schema.typeName === "google.protobuf.Duration") return durationMistakes(json, at);
  // Other messages of google.protobuf have a JSON form of their own, which the decoder checks.
  if (schema.file.name.startsWith("google/")) return [];
  if (!isMap(json)) return [{ path: at, message: "must be a map of keys" }];
  const fieldOf = (key: string) => schema.fields.find(({ name, jsonName }) => key === name || key === jsonName);
  return Object.entries(json).flatMap(([key, value], i, all) => {
    const path = [...at, key];
    const field = fieldOf(key);
    const other = all.slice(0, i).find(([one]) => field?.oneof !== undefined && fieldOf(one)?.oneof === field.oneof);
    if (other !== undefined) return [{ path, message: `cannot be combined with ${other[0]}` }];
    if (field === undefined) return [{ path, message: `unknown key${suggestedKey(key, schema)}` }];
    return value === null ? [{ path, message: "has no value" }] : valueMistakes(field, value, path);
  });
}

function valueMistakes(field: DescField, value: unknown, path: KeyPath): Mistake[] {
  switch (field.fieldKind) {
    case "list":
      if (!Array.isArray(value)) return [{ path, message: "must be a list" }];
      return value.flatMap((item, i) => itemMistakes(field, item, [...path, String(i)]));
    case "map":
      if (!isMap(value)) return [{ path, message: "must be a map of keys" }];
      return Object.entries(value).flatMap(([key, item]) => itemMistakes(field, item, [...path, key]));
    default:
      return itemMistakes(field, value, path);
  }
}

function itemMistakes({ message, enum: choice, scalar }: DescField, value: unknown, path: KeyPath): Mistake[] {
  if (message !== undefined) return fieldMistakes(message, value, path);
  const wrong = choice === undefined ? scalarMistake(scalar, value) : choiceMistake(choice, value);
  return wrong === undefined ? [] : [{ path, message: wrong }];
}

function scalarMistake(scalar: ScalarType | undefined, value: unknown): string | undefined {
  switch (scalar) {
    case ScalarType.STRING:
      if (typeof value === "string") return undefined;
      return isMap(value) || Array.isArray(value) ? "must be text" : "must be text: write it in quotes";
    case ScalarType.BOOL:
      return typeof value === "boolean" ? undefined : "must be true or false";
    case ScalarType.INT32:
    case ScalarType.UINT32:
      return Number.isInteger(value) ? undefined : "must be a whole number";
    default:
      // The decoder checks the other types, which provider descriptions hardly have.
      return undefined;
  }
}

function choiceMistake({ values }: DescEnum, value: unknown): string | undefined {
  const names = values.map(({ name }) => name);
  if (typeof value === "string" && names.includes(value)) return undefined;
  const set = names.filter((name) => !name.endsWith("_UNSPECIFIED"));
  const near = typeof value === "string" ? (similarEnd(value, set) ?? suggestion(value, set)) : "";
  return `must be one of ${set.join(", ")}${near}`;
}

/** Suggests `USE_ROTATES` for `rotates`. */
function similarEnd(written: string, names: readonly string[]): string | undefined {
  const name = names.find((one) => one.endsWith(`_${written.toUpperCase()}`));
  return name === undefined ? undefined : `. Did you mean "${name}"?`;
}

function durationMistakes(json: unknown, path: KeyPath): Mistake[] {
  const isDuration = typeof json === "string" && /^-?\d{1,12}(\.\d{1,9})?s$/.test(json);
  return isDuration ? [] : [{ path, message: 'must be a duration in seconds, such as "3600s"' }];
}

/** Suggests a similar key, or the nested message that has this key. */
function suggestedKey(key: string, { fields }: DescMessage): string {
  const near = suggestion(
    key,
    fields.map(({ name }) => name),
  );
  if (near !== "") return near;
  const holders = fields.filter(({ fieldKind, message }) => fieldKind === "message" && has(message, key));
  const [holder] = holders;
  return holder === undefined || holders.length > 1 ? "" : `. Did you mean "${holder.name}.${key}"?`;
}

const has = (message: DescMessage | undefined, key: string): boolean =>
  message?.fields.some(({ name }) => name === key) === true;

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
