import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { invalidArgument, isObject } from "./tool-arguments.ts";

/** A parsed request of a script. */
export interface ScriptRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Names and values, alternating. */
  readonly rawHeaders: readonly string[];
  readonly content: Uint8Array | undefined;
  readonly baseUrl: string | undefined;
  readonly retries: number;
  readonly retryOn: readonly number[];
  /** Bytes are sent as base64, which the script's side decodes. */
  readonly responseType: "json" | "text" | "bytes";
}

const methods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
const maxRetries = 10;

/** Parses the peer's request configuration, with the peer's names. Throws `ToolFailure`. */
export function scriptRequest(given: JsonValue | undefined): ScriptRequest {
  if (!isObject(given)) throw invalidArgument("a request must be an object, such as { endpoint: '/path' }");
  const { data } = given;
  const method = (textOf(given["method"], "method") ?? "GET").toUpperCase();
  if (!methods.has(method))
    throw invalidArgument(`\`method\` must be ${[...methods].join(", ")}, not ${JSON.stringify(method)}`);
  const { path, baseUrl } = placeOf(given);
  const headers = headersOf(given["headers"]);
  const isNamed = (name: string) => headers.some(([one]) => one.toLowerCase() === name);
  const content = contentOf(
    data,
    given["dataBase64"],
    headers.find(([name]) => name.toLowerCase() === "content-type")?.[1],
  );
  if (!isNamed("accept")) headers.push(["Accept", "application/json, text/plain, */*"]);
  if (content?.type !== undefined && !isNamed("content-type")) headers.push(["Content-Type", content.type]);
  return {
    method,
    path: withParams(path, given["params"]),
    rawHeaders: headers.flat(),
    content: content?.bytes,
    baseUrl,
    retries: retriesOf(given["retries"]),
    retryOn: retryOnOf(given["retryOn"]),
    responseType: responseTypeOf(given["responseType"]),
  };
}

function textOf(value: JsonValue | undefined, name: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalidArgument(`\`${name}\` must be a string`);
  return value;
}

/**
 * Splits the endpoint, a path at the provider or a whole URL. Other code checks whether the credentials may be sent
 * there.
 */
function placeOf({ endpoint, baseUrlOverride }: JsonObject): {
  readonly path: string;
  readonly baseUrl: string | undefined;
} {
  if (typeof endpoint !== "string" || endpoint === "")
    throw invalidArgument("`endpoint` must be a path or a URL of the provider");
  const own = textOf(baseUrlOverride, "baseUrlOverride") || undefined;
  const [, origin, rest = ""] = /^(https?:\/\/[^/?#]+)(.*)$/is.exec(endpoint) ?? [];
  if (origin === undefined) return { path: endpoint.startsWith("/") ? endpoint : `/${endpoint}`, baseUrl: own };
  return { path: rest.startsWith("/") ? rest : `/${rest}`, baseUrl: origin };
}

function headersOf(given: JsonValue | undefined): [string, string][] {
  if (given === undefined || given === null) return [];
  if (!isObject(given)) throw invalidArgument("`headers` must be an object");
  return Object.entries(given).flatMap(([name, value]): [string, string][] => {
    if (value === null) return [];
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") {
      throw invalidArgument(`\`headers.${name}\` must be a string, a number or a boolean`);
    }
    const text = String(value);
    // RFC 9110, sections 5.5 and 5.6.2: name and value must stay within their line.
    const isSendable = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
    if (!isSendable) throw invalidArgument(`\`headers.${name}\` has characters that a header cannot have`);
    return [[name, text]];
  });
}

interface RequestContent {
  readonly bytes: Uint8Array;
  readonly type: string | undefined;
}

function contentOf(
  data: JsonValue | undefined,
  base64: JsonValue | undefined,
  type: string | undefined,
): RequestContent | undefined {
  if (typeof base64 === "string") return { bytes: Buffer.from(base64, "base64"), type: "application/octet-stream" };
  if (data === undefined || data === null) return undefined;
  if (typeof data === "string") return { bytes: Buffer.from(data), type: "text/plain;charset=utf-8" };
  const isForm = type?.split(";", 1)[0]?.trim().toLowerCase() === "application/x-www-form-urlencoded";
  if (isForm && isObject(data)) return { bytes: Buffer.from(new URLSearchParams(pairsOf(data)).toString()), type };
  return { bytes: Buffer.from(JSON.stringify(data)), type: "application/json" };
}

function pairsOf(params: JsonObject): [string, string][] {
  return Object.entries(params).flatMap(([name, value]): [string, string][] => {
    if (value === null) return [];
    if (Array.isArray(value)) return value.map((one) => [name, plain(one)]);
    return [[name, plain(value)]];
  });
}

const plain = (value: JsonValue): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

function withParams(path: string, params: JsonValue | undefined): string {
  if (params === undefined || params === null) return path;
  const query =
    typeof params === "string"
      ? params.replace(/^\?/, "")
      : isObject(params)
        ? pairsOf(params)
            .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
            .join("&")
        : undefined;
  if (query === undefined) throw invalidArgument("`params` must be an object or a string");
  return query === "" ? path : `${path}${path.includes("?") ? "&" : "?"}${query}`;
}

function retriesOf(given: JsonValue | undefined): number {
  if (given === undefined || given === null) return 0;
  if (typeof given === "number" && Number.isInteger(given) && given >= 0 && given <= maxRetries) return given;
  throw invalidArgument(`\`retries\` must be a whole number from 0 to ${maxRetries}`);
}

function retryOnOf(given: JsonValue | undefined): number[] {
  if (given === undefined || given === null) return [];
  const isStatus = (one: JsonValue): one is number => typeof one === "number" && one >= 100 && one < 600;
  if (Array.isArray(given) && given.every(isStatus)) return given;
  throw invalidArgument("`retryOn` must be a list of status codes");
}

function responseTypeOf(given: JsonValue | undefined): ScriptRequest["responseType"] {
  if (given === undefined || given === null || given === "json") return "json";
  if (given === "text") return given;
  if (given === "arraybuffer" || given === "stream" || given === "blob") return "bytes";
  throw invalidArgument("`responseType` must be json, text, arraybuffer, stream or blob");
}
