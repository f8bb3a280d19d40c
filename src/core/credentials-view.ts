import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";

/** Names under which a provider's raw answer may hold what renews a token. */
const refreshNames = new Set(["refresh_token", "refreshToken", "RefreshToken"]);

/** Credentials as they are shown to those who did not ask for the refresh token: it is left out at any depth. */
export function withoutRefreshToken(credentials: Credentials): Credentials {
  const { kind } = credentials;
  switch (kind.case) {
    case "oauth2":
      return {
        ...credentials,
        kind: { case: "oauth2", value: { ...kind.value, refreshToken: "", ...rawOf(kind.value) } },
      };
    case "twoStep":
      return {
        ...credentials,
        kind: { case: "twoStep", value: { ...kind.value, refreshToken: "", ...rawOf(kind.value) } },
      };
    case "oauth2Client":
      return { ...credentials, kind: { case: "oauth2Client", value: { ...kind.value, ...rawOf(kind.value) } } };
    case "app":
      return { ...credentials, kind: { case: "app", value: { ...kind.value, ...rawOf(kind.value) } } };
    default:
      return credentials;
  }
}

const rawOf = ({ raw }: { readonly raw?: JsonObject | undefined }) =>
  raw === undefined ? {} : { raw: strippedObject(raw) };

const strippedObject = (value: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (refreshNames.has(key) ? [] : [[key, stripped(inner)]])),
  );

function stripped(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(stripped);
  return typeof value === "object" && value !== null ? strippedObject(value) : value;
}
