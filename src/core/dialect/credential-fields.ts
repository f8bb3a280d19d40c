import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ClientOverride, NamedToken, NamedTokenSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { JsonFields } from "./json-fields.ts";

/** Fields that several kinds of credentials share in the SDK's dialect: how they are read, and how they are written. */

/** ISO 8601 with milliseconds. */
export const isoTime = (at: Timestamp | undefined): string =>
  new Date(at === undefined ? 0 : timestampMs(at)).toISOString();

export function expiryTime(fields: JsonFields) {
  const ms = fields.instant("expires_at");
  return ms === undefined ? {} : { expiresAt: timestampFromMs(ms) };
}

/** Rejects `expires_in`: without its start time, a lifetime could only be guessed. */
export function expiry(fields: JsonFields) {
  if (fields.has("expires_in")) fields.refuse("expires_in", "has no start time; send expires_at instead");
  return expiryTime(fields);
}

export const expiryJson = (at: Timestamp | undefined): JsonObject =>
  at === undefined ? {} : { expires_at: isoTime(at) };

export function raw(fields: JsonFields) {
  const value = fields.json("raw");
  return value === undefined ? {} : { raw: value };
}

export function clientOverride(fields: JsonFields) {
  const given = fields.object("config_override");
  if (given === undefined) return {};
  const client = present({ clientId: given.text("client_id"), clientSecret: given.text("client_secret") });
  given.ignoreRest();
  // The SDK's types allow an empty override.
  return Object.keys(client).length === 0 ? {} : { configOverride: client };
}

export const clientOverrideJson = (client: ClientOverride | undefined): JsonObject =>
  client === undefined
    ? {}
    : { config_override: presentJson({ client_id: client.clientId, client_secret: client.clientSecret }) };

/** Tokens of the same authorization beside the main one, by name. */
export function furtherTokens(fields: JsonFields) {
  const given = fields.object("further_tokens");
  if (given === undefined) return {};
  const tokens: Record<string, MessageInitShape<typeof NamedTokenSchema>> = {};
  for (const name of Object.keys(given.rest())) {
    const one = fields.object("further_tokens")?.object(name);
    if (one === undefined) continue;
    const accessToken = one.requiredText("access_token");
    tokens[name] = { accessToken, ...present({ refreshToken: one.text("refresh_token") }), ...expiry(one) };
    one.ignoreRest();
  }
  return { furtherTokens: tokens };
}

export const furtherTokensJson = (tokens: Readonly<Record<string, NamedToken>>): JsonObject => {
  const named = Object.entries(tokens).map(([name, { accessToken, refreshToken, expiresAt, scopes }]) => [
    name,
    {
      access_token: accessToken,
      ...presentJson({ refresh_token: refreshToken, scope: scopes.join(" ") }),
      ...expiryJson(expiresAt),
    },
  ]);
  return named.length === 0 ? {} : { further_tokens: Object.fromEntries(named) };
};

/** Removes absent fields: a message must not receive undefined fields. */
export function present<T extends Record<string, string | undefined>>(given: T) {
  // Only text values remain.
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [N in keyof T]?: string;
  };
}

/** Removes empty fields: in protobuf, absent text is empty text. */
export const presentJson = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
