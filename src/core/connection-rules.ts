import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Mistake } from "../base/fault.ts";
import type { Connection, EndUser } from "../gen/latchkey/v1/connection_pb.ts";
import type { ConnectionField } from "../gen/latchkey/v1/provider_pb.ts";
import { hostIn } from "./outgoing/filled-url.ts";

/**
 * Rules for the fields of a connection, for every writer. Each check returns all mistakes; an empty list means valid.
 */

export const maxTags = 10;
export const maxMetadataBytes = 256 * 1024;
/**
 * In protobuf, each nested JSON object takes three message levels, and decoders in other languages stop at 100. A
 * deeper value could be stored but never read.
 */
export const maxMetadataDepth = 32;
export const maxMetadataKeys = 1_000;
export const maxWatchedUris = 10_000;
export const maxUrlLength = 2_048;
/** The metadata key that lists the resource URIs to match; its values are compared byte for byte. */
export const watchedUrisKey = "calendarWatchResourceUris";
const channelKeys = ["calendarChannelId", "calendarResourceId"];

const mistake = (path: readonly string[], message: string): Mistake => ({ path, message });

/**
 * The ID is sent in a header and in a path: printable ASCII only, no path segments that resolve away (`.`, `..`), and
 * no blank at either end, which a header would lose.
 */
export function checkConnectionId(id: string): Mistake[] {
  const path = ["connection_id"];
  if (id.length < 1 || id.length > 255) return [mistake(path, "must have 1 to 255 characters")];
  if (!/^[\x20-\x7e]*$/.test(id)) return [mistake(path, "must be printable ASCII")];
  if (id.startsWith(" ") || id.endsWith(" ")) return [mistake(path, "must not begin or end with a space")];
  if (dotSegment.test(id)) {
    return [mistake(path, "must not have . or .. as a path segment")];
  }
  return [];
}

/** A path segment that is one dot or two. */
const dotSegment = /(?:^|[/\\])\.\.?(?:$|[/\\])/;

const tagKey = /^[a-zA-Z][a-zA-Z0-9_\-./]*$/;

export function checkTags(tags: Readonly<Record<string, string>>): Mistake[] {
  const keys = Object.keys(tags);
  // Returns only this mistake: listing the mistakes of ten thousand tags would make the response longer than the
  // request.
  if (keys.length > maxTags) return [mistake(["tags"], `must be at most ${maxTags}`)];
  const mistakes: Mistake[] = [];
  for (let i = 0; i < keys.length; i += 1) {
    const key = keys[i] ?? "";
    const value = tags[key] ?? "";
    const add = (message: string) => mistakes.push(mistake(["tags", key], message));
    if (key.length > 64) add("the key must have at most 64 characters");
    if (!tagKey.test(key)) add("the key must begin with a letter and contain only letters, digits and _ - . /");
    if (i > 0 && isAmong(keys, i, key.toLowerCase())) add("is the same as another key in lower case");
    if (value.length < 1 || value.length > 255) add("must have 1 to 255 characters");
    if (!isPlainText(value)) add("must be text without control characters");
  }
  return mistakes;
}

/** Whether one of the first keys is this one in lower case. */
function isAmong(keys: readonly string[], count: number, lower: string): boolean {
  for (let i = 0; i < count; i += 1) if (keys[i]?.toLowerCase() === lower) return true;
  return false;
}

/** Returns valid tags with keys in lower case. An assignment would lose the key `__proto__`. */
export function lowerTags(tags: Readonly<Record<string, string>>): Record<string, string> {
  for (const key of Object.keys(tags)) {
    if (key !== key.toLowerCase()) {
      return Object.fromEntries(Object.entries(tags).map(([name, value]) => [name.toLowerCase(), value]));
    }
  }
  return { ...tags };
}

/** Tags that mirror the deprecated `end_user`. */
export function endUserTags(endUser: EndUser | undefined): Record<string, string> {
  if (endUser === undefined) return {};
  const mirrored = {
    end_user_id: endUser.id,
    end_user_email: endUser.email,
    end_user_display_name: endUser.displayName,
    organization_id: endUser.organization?.id,
    organization_display_name: endUser.organization?.displayName,
  };
  return Object.fromEntries(Object.entries(mirrored).flatMap(([key, value]) => (value ? [[key, value]] : [])));
}

/** Tags that do not just mirror the end user. */
export function ownTags({ tags, endUser }: Pick<Connection, "tags" | "endUser">): Record<string, string> {
  const mirrored = endUserTags(endUser);
  return Object.fromEntries(Object.entries(tags).filter(([key, value]) => mirrored[key] !== value));
}

export function checkMetadata(metadata: JsonObject): Mistake[] {
  const path = ["metadata"];
  const keys = Object.keys(metadata);
  if (keys.length > maxMetadataKeys) return [mistake(path, `must have at most ${maxMetadataKeys} keys`)];
  if (depthOf(metadata) > maxMetadataDepth) return [mistake(path, `must be at most ${maxMetadataDepth} deep`)];
  if (mostBytesOf(metadata) > maxMetadataBytes && Buffer.byteLength(JSON.stringify(metadata)) > maxMetadataBytes) {
    return [mistake(path, `must be at most ${maxMetadataBytes} bytes`)];
  }
  if (!isWellFormed(metadata)) return [mistake(path, "must be well-formed Unicode")];
  return [...checkWatchedUris(metadata[watchedUrisKey]), ...checkChannelKeys(metadata)];
}

function checkWatchedUris(uris: JsonValue | undefined): Mistake[] {
  const path = ["metadata", watchedUrisKey];
  if (uris === undefined || uris === null) return [];
  if (!Array.isArray(uris)) return [mistake(path, "must be an array of text")];
  if (uris.length > maxWatchedUris) return [mistake(path, `must be at most ${maxWatchedUris}`)];
  const wrong = uris.findIndex((uri) => typeof uri !== "string" || uri === "");
  return wrong === -1 ? [] : [mistake([...path, String(wrong)], "must be non-empty text")];
}

function checkChannelKeys(metadata: JsonObject): Mistake[] {
  const mistakes: Mistake[] = [];
  for (const key of channelKeys) {
    const value = metadata[key];
    if (value === undefined || value === null || typeof value === "string") continue;
    mistakes.push(mistake(["metadata", key], "must be text"));
  }
  return mistakes;
}

/** Checks the connection config against the fields that the provider describes. */
export function checkConnectionConfig(config: JsonObject, fields: readonly ConnectionField[]): Mistake[] {
  if (fields.length === 0 && Object.keys(config).length === 0) return [];
  const path = ["connection_config"];
  if (depthOf(config) > maxMetadataDepth || Buffer.byteLength(JSON.stringify(config)) > maxMetadataBytes) {
    return [mistake(path, "is too large or too deep")];
  }
  if (!isWellFormed(config)) return [mistake(path, "must be well-formed Unicode")];
  return fields.flatMap((field) => {
    const at = [...path, field.name];
    const value = config[field.name];
    if (value === undefined || value === null || value === "") {
      return field.required && field.defaultValue === "" ? [mistake(at, "is required by the provider")] : [];
    }
    if (typeof value !== "string") return [mistake(at, "must be text")];
    if (field.pattern !== "" && !new RegExp(`^(?:${field.pattern})$`, "u").test(value)) {
      return [mistake(at, "does not have the form that the provider requires")];
    }
    if (field.suffixes.length > 0 && hostIn(value, field) === undefined) {
      return [mistake(at, `must be an https URL whose host ends in one of ${field.suffixes.join(", ")}`)];
    }
    return [];
  });
}

export function checkWebhookUrl(url: string, path: readonly string[]): Mistake[] {
  if (url === "") return [];
  if (url.length > maxUrlLength) return [mistake(path, `must have at most ${maxUrlLength} characters`)];
  // URL parsing ignores blanks and line breaks, but they would be stored.
  if (!URL.canParse(url) || /\s/.test(url) || !isPlainText(url)) return [mistake(path, "must be a URL")];
  const { protocol, username, password } = new URL(url);
  if (protocol !== "https:" && protocol !== "http:") return [mistake(path, "must be https or http")];
  return username + password === "" ? [] : [mistake(path, "must not contain a user name or password")];
}

/** Returns the nesting depth of a value; a scalar has depth 0. Stops counting just past the limit. */
export function depthOf(value: JsonValue): number {
  return depthUpTo(value, maxMetadataDepth + 1);
}

function depthUpTo(value: JsonValue, most: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (most === 1) return 1;
  let deepest = 0;
  const values = Array.isArray(value) ? value : Object.values(value);
  for (let i = 0; i < values.length; i += 1) deepest = Math.max(deepest, depthUpTo(values[i] ?? null, most - 1));
  return deepest + 1;
}

/** A UTF-16 unit has at most six bytes in JSON, and a number at most 25: -0.0000012345678901234567. */
const mostUnitBytes = 6;
const mostNumberBytes = 25;

/** Returns an upper bound of the length of a value in JSON, without its text. */
function mostBytesOf(value: JsonValue): number {
  if (typeof value === "string") return value.length * mostUnitBytes + 2;
  if (typeof value !== "object" || value === null) return mostNumberBytes;
  let bytes = 2;
  if (Array.isArray(value)) for (const inner of value) bytes += mostBytesOf(inner) + 1;
  else for (const key of Object.keys(value)) bytes += key.length * mostUnitBytes + 4 + mostBytesOf(value[key] ?? null);
  return bytes;
}

/** Lone surrogates are not valid text: once stored, each would come back as another character. */
function isWellFormed(value: JsonValue): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  for (const key of Object.keys(value)) {
    if (!key.isWellFormed() || !isWellFormed((value as JsonObject)[key] ?? null)) return false;
  }
  return true;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
const isPlainText = (text: string) => text.isWellFormed() && !/[\0-\x1f\x7f]/.test(text);
