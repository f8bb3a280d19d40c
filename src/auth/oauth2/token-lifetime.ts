import type { JsonValue } from "@bufbuild/protobuf";

/** Longer than any real lifetime; more would overflow dates. */
const longestMs = 315_360_000_000;
const secondMs = 1_000;

/** `3600`, `3600.5`, `-1`, `1e9`: complete JSON numbers, not text that merely begins with one. */
const decimal = /^[+-]?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,4})?$/;
/** RFC 3339. A date without a zone is ambiguous. */
const dateAndTime = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;

/** Returns the lifetime of a token; undefined if the value is unusable. An expired token has lifetime 0. */
export function lifetimeMs(value: JsonValue | undefined, unit: string): number | undefined {
  const number = numberOf(value);
  if (number === undefined) return undefined;
  return within(unit === "ms" ? Math.floor(number) : Math.floor(number) * secondMs);
}

/** Returns the remaining lifetime at `nowMs`, given an expiry time. The unit is never guessed from the value. */
export function lifetimeUntilMs(value: JsonValue | undefined, unit: string, nowMs: number): number | undefined {
  const at = unit === "iso" ? dateOf(value) : momentOf(numberOf(value), unit);
  return at === undefined ? undefined : within(at - nowMs);
}

function numberOf(value: JsonValue | undefined): number | undefined {
  // JSON numbers may exceed JavaScript's range and become infinite: they are clamped like every large one.
  if (typeof value === "number") return Number.isNaN(value) ? undefined : value;
  return typeof value === "string" && decimal.test(value.trim()) ? Number(value.trim()) : undefined;
}

const momentOf = (number: number | undefined, unit: string) =>
  number === undefined ? undefined : unit === "ms" ? number : number * secondMs;

function dateOf(value: JsonValue | undefined): number | undefined {
  if (typeof value !== "string" || !dateAndTime.test(value)) return undefined;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : at;
}

const within = (ms: number): number => Math.floor(Math.min(Math.max(ms, 0), longestMs));
