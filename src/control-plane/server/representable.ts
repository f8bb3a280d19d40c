import {
  type DescField,
  type DescMessage,
  getOption,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { DurationSchema, StructSchema, TimestampSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldRules, Ignore } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import type { Mistake } from "../../base/fault.ts";
import { inexactNumber } from "../../core/dialect/exact-json.ts";

/**
 * Finds values of a message that not every format can represent: numbers that JSON rounds (or has rounded already),
 * values that are not numbers, times beyond the year 9999, malformed text. Once stored, such a value would break every
 * response that shows it. Skips items that the proto leaves to be checked individually.
 */
export function findUnsayable(schema: DescMessage, message: Message): Mistake[] {
  const walk: MessageScan = { at: [], found: [] };
  inMessage(walk, schema, message as unknown as MessageFields);
  return walk.found;
}

/** Every request is scanned, and most are valid: the path is copied only for a mistake. */
interface MessageScan {
  readonly at: string[];
  readonly found: Mistake[];
}

/** Messages are plain objects: fields by name; a oneof has its case and value. */
type MessageFields = Readonly<Record<string, unknown>>;

function inMessage(walk: MessageScan, desc: DescMessage, message: MessageFields): void {
  const limit = instants[desc.typeName];
  if (limit !== undefined) {
    if (!isWithin(message as unknown as Instant, limit)) mistake(walk, limit.message);
    return;
  }
  for (const field of concerned(desc)) {
    const value = valueIn(message, field);
    if (value === undefined) continue;
    walk.at.push(field.name);
    inField(walk, field, value);
    walk.at.pop();
  }
}

function valueIn(message: MessageFields, { oneof, localName }: DescField): unknown {
  if (oneof === undefined) return message[localName];
  const chosen = message[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen.case === localName ? chosen.value : undefined;
}

function inField(walk: MessageScan, field: DescField, value: unknown): void {
  if (field.fieldKind === "list") {
    const items = value as readonly unknown[];
    for (let i = 0; i < items.length; i += 1) {
      walk.at.push(String(i));
      inValue(walk, field, items[i]);
      walk.at.pop();
    }
  } else if (field.fieldKind === "map") {
    const items = value as MessageFields;
    for (const key of Object.keys(items)) {
      inText(walk, key);
      walk.at.push(key);
      inValue(walk, field, items[key]);
      walk.at.pop();
    }
  } else inValue(walk, field, value);
}

function inValue(walk: MessageScan, { message, parent }: DescField, value: unknown): void {
  if (message?.typeName === StructSchema.typeName) inJson(walk, value as JsonValue);
  else if (message !== undefined) inMessage(walk, message, value as MessageFields);
  else if (typeof value === "string") inText(walk, value);
  else if (typeof value === "bigint" && (value > maxExact || value < -maxExact))
    mistake(walk, `must be at most ${maxExact}`);
  else if (typeof value === "number") {
    const wrong = parent.typeName === ValueSchema.typeName ? inexactNumber(value) : undefined;
    if (wrong !== undefined) mistake(walk, wrong);
    else if (!Number.isFinite(value)) mistake(walk, "must be a number");
  }
}

/** NUL separates the parts of store keys, and ends strings in C. */
function inText(walk: MessageScan, text: string): void {
  if (text.includes("\0")) mistake(walk, "must hold no NUL");
  if (!text.isWellFormed()) mistake(walk, "must be well-formed Unicode");
}

/** Free-form JSON may contain any well-formed text. */
function inJson(walk: MessageScan, value: JsonValue): void {
  if (typeof value === "string" && !value.isWellFormed()) mistake(walk, "must be well-formed Unicode");
  const inexact = typeof value === "number" ? inexactNumber(value) : undefined;
  if (inexact !== undefined) mistake(walk, inexact);
  if (typeof value !== "object" || value === null) return;
  const items = value as Readonly<Record<string, JsonValue>>;
  for (const key of Object.keys(items)) {
    if (!key.isWellFormed()) mistake(walk, "must be well-formed Unicode");
    walk.at.push(key);
    inJson(walk, items[key] ?? null);
    walk.at.pop();
  }
}

const mistake = ({ at, found }: MessageScan, message: string) => void found.push({ path: [...at], message });

const maxExact = BigInt(Number.MAX_SAFE_INTEGER);

interface Limit {
  readonly least: bigint;
  readonly most: bigint;
  readonly message: string;
}

/** Types with a JSON format of their own whose range is smaller than that of their numbers. */
const instants: Readonly<Record<string, Limit>> = {
  [TimestampSchema.typeName]: {
    least: -62_135_596_800n,
    most: 253_402_300_799n,
    message: "must be an instant from the year 1 to the year 9999",
  },
  [DurationSchema.typeName]: {
    least: -315_576_000_000n,
    most: 315_576_000_000n,
    message: "must be at most 10,000 years",
  },
};

/** Both messages have exactly these two fields. */
type Instant = Message & { readonly seconds: bigint; readonly nanos: number };

function isWithin({ $typeName, seconds, nanos }: Instant, { least, most }: Limit): boolean {
  if (seconds < least || seconds > most || Math.abs(nanos) > 999_999_999) return false;
  if ($typeName === TimestampSchema.typeName) return nanos >= 0;
  return nanos === 0 || seconds === 0n || nanos > 0 === seconds > 0n;
}

const known = new WeakMap<DescMessage, readonly DescField[]>();

/** Returns the fields that can hold such values. */
function concerned(desc: DescMessage): readonly DescField[] {
  const before = known.get(desc);
  if (before !== undefined) return before;
  const found = desc.fields.filter((field) => !isJudgedApart(field) && concerns(field, new Set([desc])));
  known.set(desc, found);
  return found;
}

const doubtful: ReadonlySet<ScalarType | undefined> = new Set([
  ScalarType.INT64,
  ScalarType.UINT64,
  ScalarType.SINT64,
  ScalarType.FIXED64,
  ScalarType.SFIXED64,
  ScalarType.DOUBLE,
  ScalarType.FLOAT,
  ScalarType.STRING,
]);

function concerns(field: DescField, within: Set<DescMessage>): boolean {
  if (doubtful.has(field.scalar)) return true;
  const inner = field.message;
  if (inner === undefined) return false;
  if (within.has(inner)) return true;
  within.add(inner);
  return inner.typeName in instants || inner.fields.some((one) => concerns(one, within));
}

function isJudgedApart(field: DescField): boolean {
  const { ignore, type } = getOption(field, fieldRules);
  const ofItems = type.case === "repeated" ? type.value.items?.ignore : undefined;
  return ignore === Ignore.ALWAYS || ofItems === Ignore.ALWAYS;
}
