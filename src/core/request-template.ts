import type { JsonObject } from "@bufbuild/protobuf";
import type { RequestTemplate } from "../gen/latchkey/v1/provider_pb.ts";

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

function textOf(config: JsonObject, name: string): string | undefined {
  const value = Object.hasOwn(config, name) ? config[name] : undefined;
  // A step up or aside is no segment, however it is written.
  return typeof value === "string" && value !== "" && value !== "." && value !== ".." ? value : undefined;
}
