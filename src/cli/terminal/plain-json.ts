import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type MessageShape,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";

/**
 * Converts a message to JSON with proto field names, and with words and numbers as people write them: `active` for
 * `STATE_ACTIVE`, `407` for `"407"`. Descriptions of providers keep protobuf's words, since they are read back.
 */
export function plainJson<S extends DescMessage>(schema: S, message: MessageShape<S>): JsonValue {
  return plainMessage(toJson(schema, message, { useProtoFieldName: true }), schema, schema.typeName !== providerType);
}

const providerType = "latchkey.v1.Provider";
const scopeType = "latchkey.v1.Scope";

function plainMessage(json: JsonValue, schema: DescMessage, withWords: boolean): JsonValue {
  // Well-known types have a JSON form of their own.
  if (schema.typeName.startsWith("google.protobuf.") || !isJsonObject(json)) return json;
  const words = withWords && schema.typeName !== providerType;
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => {
      const field = schema.fields.find((one) => one.name === name);
      return [name, field === undefined ? value : plainField(value, field, words)];
    }),
  );
}

function plainField(value: JsonValue, field: DescField, words: boolean): JsonValue {
  if (field.fieldKind === "list" && Array.isArray(value)) return value.map((item) => plainValue(item, field, words));
  if (field.fieldKind === "map" && isJsonObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plainValue(item, field, words)]));
  }
  return plainValue(value, field, words);
}

function plainValue(value: JsonValue, field: DescField, words: boolean): JsonValue {
  if (field.message !== undefined) return plainMessage(value, field.message, words);
  if (field.enum !== undefined) return words && typeof value === "string" ? enumWord(field.enum, value) : value;
  return typeof value === "string" && field.scalar !== undefined && wholeNumbers.has(field.scalar)
    ? plainNumber(value)
    : value;
}

const wholeNumbers: ReadonlySet<ScalarType> = new Set([
  ScalarType.INT64,
  ScalarType.UINT64,
  ScalarType.FIXED64,
  ScalarType.SFIXED64,
  ScalarType.SINT64,
]);

/** Beyond this range, a number would lose digits. */
const plainNumber = (text: string): number | string =>
  Number.isSafeInteger(Number(text)) && text !== "" ? Number(text) : text;

/** Returns `refresh_failing` for `STATE_REFRESH_FAILING`, and `connections:read` for `SCOPE_CONNECTIONS_READ`. */
function enumWord({ sharedPrefix = "", typeName }: DescEnum, name: string): string {
  const lower = name.toLowerCase();
  const word = lower.startsWith(sharedPrefix) ? lower.slice(sharedPrefix.length) : lower;
  return typeName === scopeType ? word.replace("_", ":") : word;
}

const isJsonObject = (json: JsonValue): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json);
