import type { JsonValue } from "@bufbuild/protobuf";

/** The error message for a time that `readInstant` does not accept. */
export const instantForms = "must be a time: ISO 8601 with a zone, or seconds or milliseconds since 1970";

// RFC 3339, also with a blank instead of `T`, as some programs write it. The zone is required: without one, the same
// text would mean different times on different machines.
const iso = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)$/;
const numeric = /^\d{1,15}(?:\.\d+)?$/;

/** Numbers below this are seconds (until the year 5138); numbers from here on are milliseconds (since 1973). */
const firstMilliseconds = 1e11;
/** The range that both a protobuf timestamp and a four-digit year can hold: years 1 to 9999. */
const earliest = Date.parse("0001-01-01T00:00:00Z");
const latest = Date.parse("9999-12-31T23:59:59.999Z");

/** Returns milliseconds since 1970 for any common notation of a time; undefined if the value is not a time. */
export function readInstant(value: JsonValue): number | undefined {
  if (typeof value === "number") return fromNumber(value);
  if (typeof value !== "string") return undefined;
  return numeric.test(value) ? fromNumber(Number(value)) : fromIso(value);
}

/** The error message for a time that `readInstantOrDate` does not accept. */
export const instantOrDateForms = "must be a time: ISO 8601 with a zone, a date, or seconds or milliseconds since 1970";

/** Reads a time to filter by. A date alone means midnight UTC, as `Date` reads it on every machine. */
export const readInstantOrDate = (text: string): number | undefined =>
  readInstant(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00Z` : text);

function fromNumber(value: number): number | undefined {
  if (value < 0) return undefined;
  return inRange(Math.round(value < firstMilliseconds ? value * 1000 : value));
}

function fromIso(text: string): number | undefined {
  const [, date, minutes, seconds = ":00", zone] = iso.exec(text) ?? [];
  if (date === undefined || minutes === undefined || zone === undefined) return undefined;
  // `Date` reads February 30 as March 1.
  const midnight = Date.parse(`${date}T00:00:00Z`);
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return undefined;
  return inRange(Date.parse(`${date}T${minutes}${seconds}${zone.toUpperCase()}`));
}

const inRange = (ms: number) => (ms >= earliest && ms <= latest ? ms : undefined);
