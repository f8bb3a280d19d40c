import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { RequestTemplate } from "../../gen/latchkey/v1/provider_pb.ts";

/** A request from a provider's description, filled in with a connection's values. */
export interface FilledRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** JSON; empty if there is no body. */
  readonly body: string;
}

const place = /\$\{connectionConfig\.([^}]+)\}/g;

/** Fills a request; undefined if the connection lacks a value, in which case the request must not be sent. */
export function filledRequest({ method, path, body }: RequestTemplate, config: JsonObject): FilledRequest | undefined {
  const named = [...`${path}${body}`.matchAll(place)].map(([, name = ""]) => name);
  const values = new Map(named.map((name) => [name, textOf(config, name)]));
  if ([...values.values()].includes(undefined)) return undefined;
  const filled = (text: string, written: (value: string) => string) =>
    text.replaceAll(place, (_, name: string) => written(values.get(name) ?? ""));
  return {
    method: method || "GET",
    path: filled(path, encodeURIComponent),
    body: filled(body, (value) => JSON.stringify(value).slice(1, -1)),
  };
}

/** Values that a channel request may use besides a connection's values; undefined if there is no such value. */
export type ChannelValues = Readonly<
  Partial<Record<"id" | "address" | "token" | "expiration" | "resource" | "resourceId", string | undefined>>
>;

const anyPlace = /\$\{([^}]+)\}/g;

/**
 * Fills a channel request. Omits a body field whose value is missing: the provider must not get an expiration that is
 * the text "undefined", or empty. Returns undefined if the path uses a missing value.
 */
export function filledChannelRequest(
  { method, path, body }: RequestTemplate,
  config: JsonObject,
  values: ChannelValues,
): FilledRequest | undefined {
  const given: ReadonlyMap<string, string | undefined> = new Map(Object.entries(values));
  const valueNamed = (name: string): string | undefined => {
    const [, ofConnection] = /^connectionConfig\.(.+)$/s.exec(name) ?? [];
    return ofConnection === undefined ? given.get(name) : textOf(config, ofConnection);
  };
  let isWhole = true;
  const filledPath = path.replaceAll(anyPlace, (_, name: string) => {
    const value = valueNamed(name) ?? "";
    if (value === "" || value === "." || value === "..") isWhole = false;
    return encodeURIComponent(value);
  });
  if (!isWhole) return undefined;
  // The template is valid JSON: the validation of descriptions ensures this.
  const content = body === "" ? "" : JSON.stringify(filledJson(JSON.parse(body) as JsonValue, valueNamed) ?? null);
  return { method: method || "GET", path: filledPath, body: content };
}

/**
 * Returns undefined if a value is missing. Fills in values after parsing, so that no value can break out of its text.
 */
function filledJson(value: JsonValue, valueNamed: (name: string) => string | undefined): JsonValue | undefined {
  if (typeof value === "string") {
    const names = [...value.matchAll(anyPlace)].map(([, name = ""]) => name);
    if (names.some((name) => valueNamed(name) === undefined)) return undefined;
    return value.replaceAll(anyPlace, (_, name: string) => valueNamed(name) ?? "");
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => filledJson(one, valueNamed)).filter((one) => one !== undefined);
  const fields = Object.entries(value).map(([name, one]) => [name, filledJson(one, valueNamed)] as const);
  return Object.fromEntries(fields.filter((field): field is [string, JsonValue] => field[1] !== undefined));
}

function textOf(config: JsonObject, name: string): string | undefined {
  const value = Object.hasOwn(config, name) ? config[name] : undefined;
  // `.` and `..` are not valid path segments, in any encoding.
  return typeof value === "string" && value !== "" && value !== "." && value !== ".." ? value : undefined;
}
