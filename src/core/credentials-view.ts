import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { assertNever } from "../base/assert-never.ts";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";

/**
 * Removes the refresh token from credentials, for callers that did not ask for the refresh token. Removes fields at any
 * depth by name and, where a provider uses another name, by value.
 */
export function withoutRefreshToken(credentials: Credentials): Credentials {
  const { kind } = credentials;
  switch (kind.case) {
    case "oauth2": {
      const value = { ...kind.value, ...without(kind.value.refreshToken, kind.value), refreshToken: "" };
      return { ...credentials, kind: { case: kind.case, value } };
    }
    case "twoStep": {
      const value = { ...kind.value, ...without(kind.value.refreshToken, kind.value), refreshToken: "" };
      return { ...credentials, kind: { case: kind.case, value } };
    }
    case "oauth2Client":
      return { ...credentials, kind: { case: kind.case, value: { ...kind.value, ...without("", kind.value) } } };
    case "oauth1":
      return { ...credentials, kind: { case: kind.case, value: { ...kind.value, ...without("", kind.value) } } };
    case "app":
      return { ...credentials, kind: { case: kind.case, value: { ...kind.value, ...without("", kind.value) } } };
    case "jwt":
      return { ...credentials, kind: { case: kind.case, value: { ...kind.value, ...without("", kind.value) } } };
    case "apiKey":
    case "basic":
    case "tba":
    case "signature":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return credentials;
    default:
      return assertNever(kind);
  }
}

/**
 * Removes the DPoP key that the token is bound to: a caller that asks only for the token does not want to move the
 * connection elsewhere.
 */
export function withoutDpopKey(credentials: Credentials): Credentials {
  const { kind } = credentials;
  switch (kind.case) {
    case "oauth2":
      return { ...credentials, kind: { ...kind, value: { ...kind.value, dpopKey: "" } } };
    case "oauth2Client":
      return { ...credentials, kind: { ...kind, value: { ...kind.value, dpopKey: "" } } };
    case "oauth1":
    case "apiKey":
    case "basic":
    case "tba":
    case "app":
    case "jwt":
    case "twoStep":
    case "signature":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return credentials;
    default:
      return assertNever(kind);
  }
}

/** Free-form parts of credentials. */
interface FreeParts {
  readonly raw?: JsonObject | undefined;
  readonly fields?: JsonObject | undefined;
}

function without(refreshToken: string, { raw, fields }: FreeParts) {
  const isIt = (key: string, value: JsonValue) =>
    /^refresh[_-]?token$/i.test(key) || (refreshToken !== "" && value === refreshToken);

  const strippedObject = (object: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(object).flatMap(([key, value]) => (isIt(key, value) ? [] : [[key, stripped(value)]])),
    );

  function stripped(value: JsonValue): JsonValue {
    if (Array.isArray(value)) return value.filter((inner) => !isIt("", inner)).map(stripped);
    return typeof value === "object" && value !== null ? strippedObject(value) : value;
  }

  return {
    ...(raw === undefined ? {} : { raw: strippedObject(raw) }),
    ...(fields === undefined ? {} : { fields: strippedObject(fields) }),
  };
}
