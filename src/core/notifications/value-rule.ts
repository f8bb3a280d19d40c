import type { ValueRule } from "../../gen/latchkey/v1/provider_pb.ts";
import { type NotificationReading, readJson } from "./reading.ts";

/** Longer than any field of a connection or any header. */
const maxLength = 16_384;
/** Several times the number of notifications that any provider puts into one body. */
const maxValues = 1_000;

/** Returns the distinct values that a rule finds. */
export function valuesOf(rule: ValueRule, reading: NotificationReading): readonly string[] {
  const { base64, json, segmentAfter: mark } = rule;
  let found = placedAt(rule, reading);
  if (base64) found = found.flatMap(decodedFrom);
  if (json !== "") found = found.flatMap((value) => textsIn(value, json));
  if (mark !== "") found = found.flatMap((value) => segmentAfter(mark, value));
  if (!found.every(isUsable)) found = found.filter(isUsable);
  return found.length < 2 ? found : [...new Set(found)].slice(0, maxValues);
}

const textsIn = (value: string, path: string): readonly string[] =>
  readJson(Buffer.from(value))
    ?.textsAt(path)
    .filter((text) => text !== undefined) ?? [];

/** Rejects empty values, which would match other empty values, and NUL and lone surrogates, which cannot be stored. */
export const isUsable = (value: string): boolean =>
  value !== "" && value.length <= maxLength && !value.includes("\0") && value.isWellFormed();

function placedAt({ header, body, query, form }: ValueRule, reading: NotificationReading): readonly string[] {
  if (body !== "") return reading.textsAt(body).filter((value) => value !== undefined);
  const fields = form === "" ? [] : (reading.form() ?? []);
  if (form !== "") return fields.filter(([name]) => name === form).map(([, value]) => value);
  const value = header === "" ? reading.query(query) : reading.header(header);
  return value === undefined ? [] : [value];
}

/** Decodes base64 of either alphabet (RFC 4648) to text. */
function decodedFrom(value: string): readonly string[] {
  return /^[A-Za-z0-9+/_-]+={0,2}$/.test(value) ? [Buffer.from(value, "base64").toString("utf8")] : [];
}

function segmentAfter(mark: string, value: string): readonly string[] {
  const at = value.indexOf(mark);
  if (at === -1) return [];
  const [segment = ""] = value.slice(at + mark.length).split(/[/?]/, 1);
  try {
    return [decodeURIComponent(segment)];
  } catch {
    // A segment that does not decode names nothing. Rules can still look up the value as a whole.
    return [];
  }
}
