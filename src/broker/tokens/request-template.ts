import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { RequestTemplate } from "../../gen/latchkey/v1/provider_pb.ts";

/** A request of a provider's description with a connection's values in it. */
export interface FilledRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** JSON; empty: none. */
  readonly body: string;
}

const place = /\$\{connectionConfig\.([^}]+)\}/g;

/** Undefined where the connection has no such value, and so no such request is to be made. */
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

/** What a request about a channel may name beside a connection's values; undefined: there is no such value. */
export type ChannelValues = Readonly<
  Partial<Record<"id" | "address" | "token" | "expiration" | "resource" | "resourceId", string | undefined>>
>;

const anyPlace = /\$\{([^}]+)\}/g;

/**
 * A request about a channel. A field of the body whose value is not given is left out: a provider is not told of an
 * expiration that is the text "undefined", or none. Undefined where the path names something that there is not.
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
  // Templates are JSON: the check of descriptions sees to it.
  const content = body === "" ? "" : JSON.stringify(filledJson(JSON.parse(body) as JsonValue, valueNamed) ?? null);
  return { method: method || "GET", path: filledPath, body: content };
}

/** Undefined: one of the values in it is not there. Values are put into what was parsed, so that none can leave its text. */
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
  // A step up or aside is no segment, however it is written.
  return typeof value === "string" && value !== "" && value !== "." && value !== ".." ? value : undefined;
}
