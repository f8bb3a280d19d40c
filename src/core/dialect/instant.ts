import type { JsonValue } from "@bufbuild/protobuf";

/** What to tell whoever wrote a time that `readInstant` does not take. */
export const instantForms = "must be a time: ISO 8601 with a zone, or seconds or milliseconds since 1970";

// RFC 3339, with a blank for the `T` as some write it. Without a zone the same text would mean another time on
// another machine, so that there must be one.
const iso = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)$/;
const numeric = /^\d{1,15}(?:\.\d+)?$/;

/** Below it a number is seconds (until the year 5138), from it on milliseconds (since 1973). */
const firstMilliseconds = 1e11;
/** The years that a protobuf timestamp and four digits both hold: 1 to 9999. */
const earliest = Date.parse("0001-01-01T00:00:00Z");
const latest = Date.parse("9999-12-31T23:59:59.999Z");

/** Milliseconds since 1970, of whatever way of writing a time is in use; undefined when it is none. */
export function readInstant(value: JsonValue): number | undefined {
  if (typeof value === "number") return fromNumber(value);
  if (typeof value !== "string") return undefined;
  return numeric.test(value) ? fromNumber(Number(value)) : fromIso(value);
}

/** What to tell a caller whose time `readInstantOrDate` does not take. */
export const instantOrDateForms = "must be a time: ISO 8601 with a zone, a date, or seconds or milliseconds since 1970";

/** A time to filter by. A date alone is its midnight in UTC, as `Date` reads it on every machine. */
export const readInstantOrDate = (text: string): number | undefined =>
  readInstant(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00Z` : text);

function fromNumber(value: number): number | undefined {
  if (value < 0) return undefined;
  return inRange(Math.round(value < firstMilliseconds ? value * 1000 : value));
}

function fromIso(text: string): number | undefined {
  const [, date, minutes, seconds = ":00", zone] = iso.exec(text) ?? [];
  if (date === undefined || minutes === undefined || zone === undefined) return undefined;
  // `Date` takes the 30th of February for the 1st of March.
  const midnight = Date.parse(`${date}T00:00:00Z`);
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return undefined;
  return inRange(Date.parse(`${date}T${minutes}${seconds}${zone.toUpperCase()}`));
}

const inRange = (ms: number) => (ms >= earliest && ms <= latest ? ms : undefined);
