import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Mistake } from "../../base/fault.ts";
import { maxMetadataDepth } from "../connection-rules.ts";
import { instantForms, readInstant } from "./instant.ts";

/** As many as a person reads. A line of a mebibyte could hold a hundred thousand. */
const maxFindings = 100;

/** What reading an object brought to light. Nothing here quotes a value: it may be a secret. */
export interface ReadingNotes {
  readonly mistakes: Mistake[];
  /** Dotted paths of fields that no one asked for. */
  readonly ignored: string[];
}

/**
 * Reads a JSON object field by field. A field that is null is absent. What is wrong is noted among the findings and
 * read as absent, so that one pass finds every mistake.
 */
export interface JsonFields {
  text(name: string): string | undefined;
  /** Text that must be there and must not be empty; empty only after a mistake. */
  requiredText(name: string): string;
  /** Notes a mistake when none of these is there and not empty. */
  requireOneOf(...names: readonly [string, ...string[]]): void;
  /** Whether the field is there, whatever it holds. */
  has(name: string): boolean;
  /** Milliseconds since 1970. */
  instant(name: string): number | undefined;
  /** Free in form, but all of it text, finite numbers and what else protobuf can carry. */
  json(name: string): JsonObject | undefined;
  textMap(name: string): Record<string, string> | undefined;
  object(name: string): JsonFields | undefined;
  refuse(name: string, message: string): void;
  /** The fields that were not read so far, for an object that is free in form. */
  rest(): JsonObject;
  /** Files the fields that were not read as ignored. */
  ignoreRest(): void;
}

interface JsonPosition {
  readonly path: readonly string[];
  readonly findings: ReadingNotes;
}

export function readFields(source: JsonObject, { path, findings }: JsonPosition): JsonFields {
  const unread = new Set(Object.keys(source));
  const refuseAt = (at: readonly string[], message: string) => {
    if (findings.mistakes.length < maxFindings) findings.mistakes.push({ path: [...path, ...at], message });
    return undefined;
  };

  // Own fields alone: `constructor` is a field like any other.
  const peek = (name: string) => (Object.hasOwn(source, name) ? (source[name] ?? undefined) : undefined);
  const isMissing = (name: string) => peek(name) === undefined || peek(name) === "";
  const take = (name: string): JsonValue | undefined => {
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
      // Every value was just seen to be text.
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
      const room = maxFindings - findings.ignored.length;
      findings.ignored.push(...[...unread].slice(0, room).map((name) => [...path, name].join(".")));
    },
  };
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The first thing that would be changed or lost on its way: half a character, a number that overflowed (`1e999` is
 * JSON), or a depth at which readers give up.
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
    if (!key.isWellFormed()) return { path: [], message: "must have well-formed Unicode as its keys" };
    // An array's entries are values by index, an object's by key; JSON holds nothing else.
    const wrong = whatProtobufCannotCarry(inner as JsonValue, depth + 1);
    if (wrong !== undefined) return { path: [key, ...wrong.path], message: wrong.message };
  }
  return undefined;
}
