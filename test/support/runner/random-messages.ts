import {
  create,
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  ScalarType,
} from "@bufbuild/protobuf";
import { below } from "./seeded.ts";

const texts = ["", "a", "é", "🦊", "\ud800", "x\udfffy", "\0", "ada@example.com"];
const lengths = [0, 1, 39, 40, 41, 42, 43, 63, 127, 128, 129, 500, 5_461, 16_383, 16_384];
const numbers = [0, -0, 1, 0.5, -1, 127, 128, 16_384, 2 ** 31 - 1, -(2 ** 31), 1_767_225_600_000, Number.NaN];
const longs = [0n, 1n, 127n, 128n, 2n ** 31n, 2n ** 35n + 5n, 10n ** 15n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n];

/** A value of the field's type: ordinary, empty, or an edge case. */
function oneOf(random: () => number, field: DescField): unknown {
  const of = <T>(some: readonly T[]): T => some[below(random, some.length)] as T;
  const text = () => (random() < 0.5 ? of(texts) : of(texts.slice(1)).repeat(of(lengths)));
  if (field.message?.typeName === "google.protobuf.Struct") return objectOf(random, 0);
  if (field.message !== undefined) return messageOf(random, field.message);
  if (field.enum !== undefined) return of(field.enum.values).number;
  switch (field.scalar) {
    case ScalarType.STRING:
      return text();
    case ScalarType.BYTES:
      return new Uint8Array(random() < 0.02 ? 3 * 1_024 * 1_024 : of(lengths)).fill(7);
    case ScalarType.BOOL:
      return random() < 0.5;
    case ScalarType.DOUBLE:
      return of(numbers);
    case ScalarType.INT32:
      return of(numbers.map((one) => one | 0));
    case ScalarType.UINT32:
      return of(numbers.map((one) => one >>> 0));
    case ScalarType.UINT64:
      return of([...longs, 2n ** 64n - 1n]);
    case ScalarType.INT64:
      return of([...longs, -1n, -(2n ** 63n)]);
    default:
      throw new Error(`${field}: of that kind nothing is known here`);
  }
}

const keys = ["", "a", "emailAddress", "7", "é", "__proto__x"];

/** A value of JSON, in which objects and lists are nested a few times. */
function jsonOf(random: () => number, depth: number): JsonValue {
  const kind = below(random, depth > 3 ? 4 : 6);
  if (kind === 0) return null;
  if (kind === 1) return [0, -0, 1.5, -1, 1e300, 2 ** 53][below(random, 6)] ?? 0;
  if (kind === 2) return (texts[below(random, 4)] ?? "").repeat(lengths[below(random, 12)] ?? 1);
  if (kind === 3) return random() < 0.5;
  if (kind === 4) return Array.from({ length: below(random, 4) }, () => jsonOf(random, depth + 1));
  return objectOf(random, depth);
}

function objectOf(random: () => number, depth: number): JsonObject {
  return Object.fromEntries(keys.filter(() => random() < 0.3).map((key) => [key, jsonOf(random, depth + 1)] as const));
}

/** A message with any content: also what no rule of the proto allows. */
export function messageOf(random: () => number, schema: DescMessage) {
  const message = create(schema) as ReturnType<typeof create> & Record<string, unknown>;
  for (const field of schema.fields) {
    if (random() < 0.3) continue;
    if (field.oneof !== undefined) {
      message[field.oneof.localName] = { case: field.localName, value: oneOf(random, field) };
    } else if (field.fieldKind === "map") {
      message[field.localName] = Object.fromEntries(
        keys.filter(() => random() < 0.4).map((key) => [key, oneOf(random, field)] as const),
      );
    } else {
      message[field.localName] =
        field.fieldKind === "list"
          ? Array.from({ length: below(random, 4) }, () => oneOf(random, field))
          : oneOf(random, field);
    }
  }
  // A field of a later version.
  if (random() < 0.1) message.$unknown = [{ no: 1_000, wireType: 2, data: Uint8Array.of(2, 8, 1) }];
  return message;
}
