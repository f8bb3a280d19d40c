import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Free-form parts of credentials. */
export interface FreeParts {
  readonly raw?: JsonObject | undefined;
  readonly fields?: JsonObject | undefined;
}

/**
 * Returns the free-form parts without refresh tokens: fields at any depth by name and, where a provider uses another
 * name, by value. An empty `refreshToken` removes by name alone.
 */
export function withoutRefreshTokenIn({ raw, fields }: FreeParts, refreshToken: string) {
  const isHidden = (key: string, value: JsonValue) =>
    /^refresh[_-]?token$/i.test(key) || (refreshToken !== "" && value === refreshToken);

  const strippedObject = (object: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(object).flatMap(([key, value]) => (isHidden(key, value) ? [] : [[key, stripped(value)]])),
    );

  function stripped(value: JsonValue): JsonValue {
    if (Array.isArray(value)) return value.filter((inner) => !isHidden("", inner)).map(stripped);
    return typeof value === "object" && value !== null ? strippedObject(value) : value;
  }

  return {
    ...(raw === undefined ? {} : { raw: strippedObject(raw) }),
    ...(fields === undefined ? {} : { fields: strippedObject(fields) }),
  };
}
