import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Mistake } from "../../base/fault.ts";
import { hintOf } from "../../base/similar.ts";
import { maxMetadataDepth } from "../connection-rules.ts";
import { instantForms, readInstant } from "./instant.ts";

/** Limits the findings to what a person reads. A line of 1 MiB could cause a hundred thousand. */
const maxFindings = 100;
/** Limits the unknown names of an object that are compared with the known ones. */
const maxCompared = 20;

/** Findings from reading an object. Never contains a value, which may be a secret. */
export interface ReadFindings {
  readonly mistakes: Mistake[];
  /** Dotted paths of unknown fields. */
  readonly ignored: string[];
  /** Unknown fields whose names are close to that of a known, absent field. Undefined: not searched for. */
  readonly misspelled?: Mistake[];
}

/**
 * Reads a JSON object field by field. A null field counts as absent. An invalid field is recorded as a mistake and read
 * as absent, so that one pass finds every mistake.
 */
export interface JsonFields {
  text(name: string): string | undefined;
  /** Required, nonempty text; returns empty text only after recording a mistake. */
  requiredText(name: string): string;
  /** Records a mistake if none of these fields is present and nonempty. */
  requireOneOf(...names: readonly [string, ...string[]]): void;
  /** Reports whether the field is present, with any value. */
  has(name: string): boolean;
  /** The value as it came, null included; undefined: the field is absent. */
  raw(name: string): JsonValue | undefined;
  /** Milliseconds since 1970. */
  instant(name: string): number | undefined;
  /** Any JSON object whose text, numbers and depth protobuf can carry. */
  json(name: string): JsonObject | undefined;
  textMap(name: string): Record<string, string> | undefined;
  object(name: string): JsonFields | undefined;
  refuse(name: string, message: string): void;
  /** Fields that have not been read yet, for an object with free-form fields. */
  rest(): JsonObject;
  /** Records the unread fields as ignored. */
  ignoreRest(): void;
}

interface JsonPosition {
  readonly path: readonly string[];
  readonly findings: ReadFindings;
}

export function readFields(source: JsonObject, { path, findings }: JsonPosition): JsonFields {
  const unread = new Set(Object.keys(source));
  const asked = findings.misspelled && new Set<string>();
  const refuseAt = (at: readonly string[], message: string) => {
    if (findings.mistakes.length < maxFindings) findings.mistakes.push({ path: [...path, ...at], message });
    return undefined;
  };

  // Own fields only: `constructor` is an ordinary field name here.
  const peek = (name: string) => (Object.hasOwn(source, name) ? (source[name] ?? undefined) : undefined);
  const isMissing = (name: string) => peek(name) === undefined || peek(name) === "";
  const take = (name: string): JsonValue | undefined => {
    asked?.add(name);
    unread.delete(name);
    return peek(name);
  };
  const takeObject = (name: string): JsonObject | undefined => {
    const value = take(name);
    if (value === undefined) return undefined;
    return isObject(value) ? value : refuseAt([name], "must be a JSON object");
  };

  const text = (name: string) => {
    const value = take(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string") return refuseAt([name], "must be text");
    return value.isWellFormed() ? value : refuseAt([name], "must be well-formed Unicode");
  };

  return {
    text,
    requiredText(name) {
      if (isMissing(name)) refuseAt([name], "is required");
      return text(name) ?? "";
    },
    requireOneOf(first, ...others) {
      if (![first, ...others].every(isMissing)) return;
      refuseAt([first], `is required, or else ${others.join(" or ")}`);
    },
    has: (name) => take(name) !== undefined,
    raw(name) {
      asked?.add(name);
      unread.delete(name);
      return Object.hasOwn(source, name) ? source[name] : undefined;
    },
    instant(name) {
      const value = take(name);
      if (value === undefined) return undefined;
      return readInstant(value) ?? refuseAt([name], instantForms);
    },
    json(name) {
      const value = takeObject(name);
      if (value === undefined) return undefined;
      const wrong = whatProtobufCannotCarry(value, 1);
      return wrong === undefined ? value : refuseAt([name, ...wrong.path], wrong.message);
    },
    textMap(name) {
      const value = takeObject(name);
      if (value === undefined) return undefined;
      const wrong = Object.entries(value).filter(
        ([key, entry]) => !key.isWellFormed() || typeof entry !== "string" || !entry.isWellFormed(),
      );
      for (const [key, entry] of wrong) {
        refuseAt([name, key], typeof entry === "string" ? "must be well-formed Unicode" : "must be text");
      }
      // Every value was checked to be text.
      return wrong.length === 0 ? (value as Record<string, string>) : undefined;
    },
    object(name) {
      const value = takeObject(name);
      return value === undefined ? undefined : readFields(value, { path: [...path, name], findings });
    },
    refuse(name, message) {
      refuseAt([name], message);
    },
    rest() {
      const found = Object.entries(source).filter(([name, value]) => unread.has(name) && value !== null);
      unread.clear();
      const value = Object.fromEntries(found);
      const wrong = whatProtobufCannotCarry(value, 1);
      if (wrong !== undefined) refuseAt(wrong.path, wrong.message);
      return value;
    },
    ignoreRest() {
      const absent = [...(asked ?? [])].filter((name) => !Object.hasOwn(source, name));
      for (const name of asked === undefined ? [] : [...unread].slice(0, maxCompared)) {
        const hint = hintOf(name, absent);
        const at = [...path, name];
        if (hint !== undefined) {
          findings.misspelled?.push({ path: at, message: `unknown field "${at.join(".")}"; ${hint}` });
        }
      }
      const room = maxFindings - findings.ignored.length;
      findings.ignored.push(...[...unread].slice(0, room).map((name) => [...path, name].join(".")));
    },
  };
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Finds the first value that would be changed or lost in transit: a lone surrogate, a number that overflowed (`1e999`
 * is valid JSON), or nesting so deep that readers give up.
 */
function whatProtobufCannotCarry(value: JsonValue, depth: number): Mistake | undefined {
  if (typeof value === "string") {
    return value.isWellFormed() ? undefined : { path: [], message: "must be well-formed Unicode" };
  }
  if (typeof value === "number") {
    return Number.isFinite(value) ? undefined : { path: [], message: "must be a finite number" };
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > maxMetadataDepth) return { path: [], message: `must be at most ${maxMetadataDepth} deep` };
  for (const [key, inner] of Object.entries(value)) {
    if (!key.isWellFormed()) return { path: [], message: "must have well-formed Unicode keys" };
    // Array entries are values by index, object entries by key; JSON has nothing else.
    const wrong = whatProtobufCannotCarry(inner as JsonValue, depth + 1);
    if (wrong !== undefined) return { path: [key, ...wrong.path], message: wrong.message };
  }
  return undefined;
}
