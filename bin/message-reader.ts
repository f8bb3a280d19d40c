// Part of the generated readers: readers.ts copies it.
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";

/** Reads the fields of a message. Each method throws for what is not plain. */
export interface MessageReader {
  /** Whether the current message has more fields. */
  hasMore(): boolean;
  /** Field number and wire type. */
  tag(): number;
  /** Text of at most as many UTF-16 units, without NUL. */
  text(most: number): string;
  flag(): boolean;
  /** A whole number from 0 to `most`, which is a safe integer. */
  unsigned(most: number): number;
  double(): number;
  /** Starts a nested message; returns the argument for `end`. */
  begin(): number;
  end(outer: number): void;
  /** Ends the reading of a message that is not plain. */
  refuse(): never;
}

export const anyLength: number = Number.MAX_SAFE_INTEGER;

export function readEntry(r: MessageReader, into: Record<string, string>): void {
  const outer = r.begin();
  let key = "";
  let value = "";
  while (r.hasMore()) {
    const tag = r.tag();
    if (tag === 10) key = r.text(anyLength);
    else if (tag === 18) value = r.text(anyLength);
    else r.refuse();
  }
  r.end(outer);
  // An assignment would set the prototype.
  if (key === "__proto__") r.refuse();
  into[key] = value;
}

export function readStruct(r: MessageReader): JsonObject {
  const outer = r.begin();
  const object: JsonObject = {};
  while (r.hasMore()) {
    if (r.tag() !== 10) r.refuse();
    const entry = r.begin();
    if (r.tag() !== 10) r.refuse();
    const key = r.text(anyLength);
    if (key === "__proto__" || r.tag() !== 18) r.refuse();
    object[key] = readValue(r);
    r.end(entry);
  }
  r.end(outer);
  return object;
}

/** A value has one field. Numbers are those that JSON represents exactly. */
export function readValue(r: MessageReader): JsonValue {
  const outer = r.begin();
  const tag = r.tag();
  let value: JsonValue = null;
  if (tag === 26) value = r.text(anyLength);
  else if (tag === 17) {
    value = r.double();
    if (!Number.isFinite(value) || Object.is(value, -0)) r.refuse();
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) r.refuse();
  } else if (tag === 32) value = r.flag();
  else if (tag === 42) value = readStruct(r);
  else if (tag === 50) value = readList(r);
  else if (tag !== 8 || r.unsigned(0) !== 0) r.refuse();
  r.end(outer);
  return value;
}

export function readList(r: MessageReader): JsonValue[] {
  const outer = r.begin();
  const values: JsonValue[] = [];
  while (r.hasMore()) {
    if (r.tag() !== 10) r.refuse();
    values.push(readValue(r));
  }
  r.end(outer);
  return values;
}

/** From 1970 to the year 9999. */
export function readTimestamp(r: MessageReader): Timestamp {
  const outer = r.begin();
  let seconds = 0;
  let nanos = 0;
  while (r.hasMore()) {
    const tag = r.tag();
    if (tag === 8) seconds = r.unsigned(253_402_300_799);
    else if (tag === 16) nanos = r.unsigned(999_999_999);
    else r.refuse();
  }
  r.end(outer);
  return { $typeName: "google.protobuf.Timestamp", seconds: BigInt(seconds), nanos };
}
