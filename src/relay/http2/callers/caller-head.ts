import type { IncomingHttpHeaders } from "node:http";
import { byFieldName } from "../../../base/http/field-name.ts";
import { areTrailers, isOfConnection, withoutBlanks } from "../stream-head.ts";
import type { FieldBlock } from "../wire/hpack-decoder.ts";

/** The head of a request over HTTP/2, in the form of one over HTTP/1.1: `Host` in place of `:authority`. */
export interface CallerHead {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
  /** Undefined: the request does not say. */
  readonly contentLength: number | undefined;
}

const isToken = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const isTarget = /^[\x21-\x7e\x80-\xff]+$/;
const isScheme = /^[A-Za-z][A-Za-z0-9+\-.]*$/;
/** RFC 9113, 8.3.1: without a user. */
const isAuthority = /^[!$%&'()*+,\-.:;=[\]_~0-9A-Za-z]+$/;
const isLength = /^(?:0|[1-9][0-9]{0,14})$/;

/** Fields that `node:http` does not join either: the first value counts. */
const singleNames = [
  ...["authorization", "content-encoding", "content-length", "content-type", "date", "etag", "expires", "from"],
  ...["host", "if-modified-since", "if-unmodified-since", "last-modified", "max-forwards", "proxy-authorization"],
  ...["range", "referer", "retry-after", "user-agent"],
];
const isSingle = byFieldName((lower) => singleNames.includes(lower));

interface PseudoFields {
  method: string | undefined;
  path: string | undefined;
  scheme: string | undefined;
  authority: string | undefined;
}

/**
 * Returns undefined for a malformed head (RFC 9113, 8.1.1, 8.2 and 8.3.1). `isAll`: the request has no body.
 */
export function callerHeadOf({ fields, isMalformed }: FieldBlock, isAll: boolean): CallerHead | undefined {
  if (isMalformed) return undefined;
  const pseudo: PseudoFields = { method: undefined, path: undefined, scheme: undefined, authority: undefined };
  const from = readPseudo(fields, pseudo);
  const { method, authority } = pseudo;
  if (from === undefined || method === undefined || !isToken.test(method)) return undefined;
  if (authority !== undefined && !isAuthority.test(authority)) return undefined;
  const url = targetOf(pseudo, method);
  if (url === undefined) return undefined;
  const headers: Record<string, string | string[]> = Object.create(null);
  const rawHeaders: string[] = [];
  let contentLength: number | undefined;
  for (let i = from; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = withoutBlanks(fields[i + 1] as string);
    if (name.charCodeAt(0) === colon || isOfConnection(name) || (name === "te" && !isTrailers(value))) return undefined;
    if (name === "content-length") {
      if (contentLength !== undefined || !isLength.test(value)) return undefined;
      contentLength = Number(value);
    } else if (name === "host" && ("host" in headers || !isAuthority.test(value))) {
      return undefined;
    }
    rawHeaders.push(name, value);
    addTo(headers, name, value);
  }
  if (isAll && contentLength !== undefined && contentLength > 0 && method !== "CONNECT") return undefined;
  const { host } = headers;
  if (authority === undefined) {
    if (host === undefined) return undefined;
  } else if (host !== authority) {
    // A differing `Host` and `:authority` stay two headers, and are refused as such.
    rawHeaders.unshift("host", authority);
    headers["host"] = authority;
  }
  return { method, url, headers, rawHeaders, contentLength };
}

/** Returns whether a field block may follow the content of a request. */
export function areCallerTrailers(block: FieldBlock): boolean {
  if (!areTrailers(block)) return false;
  const { fields } = block;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] === "te" && !isTrailers(fields[i + 1] as string)) return false;
    if (fields[i] === "host") return false;
  }
  return true;
}

const colon = 58;

/** Returns where the other fields begin; undefined: a pseudo-header is unknown, repeated or empty. */
function readPseudo(fields: readonly string[], pseudo: PseudoFields): number | undefined {
  let at = 0;
  for (; at < fields.length; at += 2) {
    const name = fields[at] as string;
    if (name.charCodeAt(0) !== colon) break;
    const value = fields[at + 1] as string;
    const key = name.slice(1);
    if (value === "" || !isKnown(key) || pseudo[key] !== undefined) return undefined;
    pseudo[key] = value;
  }
  return at;
}

const isKnown = (key: string): key is keyof PseudoFields =>
  key === "path" || key === "method" || key === "scheme" || key === "authority";

/** RFC 9113, 8.3.1 and 8.5. */
function targetOf({ path, scheme, authority }: PseudoFields, method: string): string | undefined {
  if (method === "CONNECT") {
    return path === undefined && scheme === undefined && authority !== undefined ? "" : undefined;
  }
  if (path === undefined || scheme === undefined || !isScheme.test(scheme) || !isTarget.test(path)) return undefined;
  return path.startsWith("/") || (path === "*" && method === "OPTIONS") ? path : undefined;
}

const isTrailers = (value: string): boolean => value.toLowerCase() === "trailers";

function addTo(headers: Record<string, string | string[]>, name: string, value: string): void {
  const before = headers[name];
  if (before === undefined) headers[name] = name === "set-cookie" ? [value] : value;
  else if (Array.isArray(before)) before.push(value);
  else if (!isSingle(name)) headers[name] = name === "cookie" ? `${before}; ${value}` : `${before}, ${value}`;
}
