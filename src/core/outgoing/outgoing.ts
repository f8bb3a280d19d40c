import type { Attachment, NameValue, RequestDraft } from "../../auth/attachment.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { createNote, type Memo } from "../../base/memo.ts";
import type { ProxyRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { outgoingFields } from "./outgoing-fields.ts";

/** A request to the provider, without its body. */
export interface OutgoingHead {
  /** Path and query, as in the request line. */
  readonly target: string;
  /** Request line, fields with framing, and the empty line; latin1. */
  readonly head: string;
}

export interface ProxiedHead {
  readonly method: string;
  /** The part after the base path: path and query, as the caller wrote them. */
  readonly path: string;
  readonly rawHeaders: readonly string[];
  /** Cache slot for requests that repeat the same fields. */
  readonly memo?: Memo | undefined;
  readonly body: "none" | "length" | "chunked";
  /** The caller's key. */
  readonly key: string | undefined;
  /** The request came over HTTP/2. */
  readonly isHttp2?: boolean;
}

export interface OutgoingRequest {
  readonly proxied: ProxiedHead;
  readonly scheme: "https" | "http";
  /** The value of the Host field. */
  readonly host: string;
  readonly basePath: string;
  readonly attachment: Attachment;
  /**
   * Identifies the attachment in the cache, which must not keep the attachment itself; undefined: do not cache the
   * head.
   */
  readonly stamp?: object | undefined;
  /** The result of `endingOf` for the attachment. */
  readonly ending?: string | undefined;
  readonly proxy: ProxyRules | undefined;
  /** The response body must be whole and not compressed, because it will be searched here. */
  readonly wantsPlain: boolean;
  /** The body, for a signing attachment that needs it. */
  readonly content: Uint8Array | undefined;
  readonly nowMs: number;
  readonly nonce: () => string;
  /** A nonce from the provider, to sign with. */
  readonly providerNonce?: string | undefined;
  /** Trace context of our own span. Replaces the caller's, which was already removed from the fields. */
  readonly traceparent?: string;
}

/** RFC 9110, 7.6.3: a gateway adds itself to Via. */
export const via = "1.1 latchkey";
const viaHttp2 = "2 latchkey";

/** A request in parts, for a client that writes its requests itself. */
export interface OutgoingParts {
  readonly target: string;
  /** Name, value, name, value: all fields except `Host`, body framing and credentials. */
  readonly fields: readonly string[];
  /** Fields of the credentials. */
  readonly attached: readonly NameValue[];
  readonly contentLength: string | undefined;
}

/**
 * Fields with which a caller would get a body that cannot be searched: compressed, or in parts too short to hold a whole
 * secret. A provider that gets no `Range` answers with the whole.
 */
const hidingFields = ["accept-encoding", "grpc-accept-encoding", "range", "if-range"];

/**
 * Builds the provider request from the caller's, with the credentials attached; these replace the caller's fields of
 * the same name.
 */
export function outgoingParts(going: OutgoingRequest): OutgoingParts {
  const { proxied, basePath, attachment, proxy } = going;
  const brought = credentialFieldNames(attachment);
  const replaced = going.wantsPlain ? new Set([...brought, ...hidingFields]) : brought;
  const { pairs: fields, contentLength } = outgoingFields(proxied.rawHeaders, { replaced, key: proxied.key });
  if (proxy !== undefined) addDefaults(fields, { defaults: proxy.headers, own: replaced });
  if (going.wantsPlain) fields.push("Accept-Encoding", "identity");
  if (going.traceparent !== undefined) fields.push("traceparent", going.traceparent);
  const target = basePath + targetWith(proxied.path, { attachment, proxy });
  const attached =
    attachment.kind === "fixed" ? attachment.headers : attachment.sign(draftOf({ ...going, target, fields })).headers;
  return { target, fields, attached, contentLength };
}

/** Builds the same request as text. */
export function outgoing(going: OutgoingRequest): OutgoingHead {
  const { proxied, host } = going;
  const { target, fields, attached, contentLength } = outgoingParts(going);
  const middle = middleOf({ host, fields, contentLength: proxied.body === "chunked" ? undefined : contentLength });
  const memo = memoFor(going);
  if (memo !== undefined) kept.keep(memo, keptOf(going, middle));
  return { target, head: `${proxied.method} ${target}${middle}${endOf(proxied, attached)}` };
}

/** Reuses the cached head of an earlier request with the same fields and settings; undefined if there is none. */
export function cachedOutgoing(
  going: HeadInputs & Pick<OutgoingRequest, "proxied" | "basePath" | "attachment">,
): string | undefined {
  const { proxied, basePath, ending } = going;
  const known = proxied.memo && kept.of(proxied.memo);
  if (known === undefined || ending === undefined || proxied.isHttp2 === true || !isOf(known, going)) return undefined;
  const path = known.isBare ? proxied.path : targetWith(proxied.path, going);
  return `${proxied.method} ${basePath}${path}${known.middle}${ending}`;
}

/** Returns the usual end of a head with a fixed attachment; undefined for other attachments. */
export const endingOf = (attachment: Attachment): string | undefined =>
  attachment.kind === "fixed" ? inOnePiece(endOf({ body: "none" }, attachment.headers)) : undefined;

/** Returns the credentials, the Via field, and Transfer-Encoding for a chunked body. */
function endOf({ body, isHttp2 }: Pick<ProxiedHead, "body" | "isHttp2">, attached: readonly NameValue[]): string {
  let lines = "";
  for (const [name, value] of attached) lines += `${name}: ${value}\r\n`;
  lines += isHttp2 === true ? `Via: ${viaHttp2}\r\n` : `Via: ${via}\r\n`;
  if (body === "chunked") lines += "Transfer-Encoding: chunked\r\n";
  return `${lines}\r\n`;
}

interface Middle {
  readonly host: string;
  readonly fields: readonly string[];
  readonly contentLength: string | undefined;
}

/** Returns the part of a head between the path and the credentials. */
function middleOf({ host, fields, contentLength }: Middle): string {
  let lines = ` HTTP/1.1\r\nHost: ${host}\r\n`;
  for (let i = 0; i < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return contentLength === undefined ? lines : `${lines}Content-Length: ${contentLength}\r\n`;
}

/** Flattens text that is written with many requests: a rope would be flattened on each write. */
const inOnePiece = (text: string): string => Buffer.from(text, "latin1").toString("latin1");

/** The cache key of a head that can be reused with another request line; undefined if it cannot. */
const memoFor = ({ proxied, attachment, stamp, wantsPlain, traceparent }: OutgoingRequest): Memo | undefined =>
  attachment.kind !== "fixed" ||
  stamp === undefined ||
  wantsPlain ||
  traceparent !== undefined ||
  proxied.body === "chunked"
    ? undefined
    : proxied.memo;

/** Values that a head depends on, besides the caller's fields. */
type HeadInputs = Pick<OutgoingRequest, "host" | "stamp" | "proxy" | "ending">;

/** A cached request head: the forwarded headers and the values that invalidate it. Never holds credentials. */
interface CachedHead extends Omit<HeadInputs, "ending"> {
  readonly middle: string;
  /** No parameters are appended to the path. */
  readonly isBare: boolean;
}

const kept = createNote<CachedHead>();

// No check of the caller's key here: it is not forwarded, but is one of the fields that the cache compares.
const isOf = (known: CachedHead, { host, stamp, proxy }: HeadInputs): boolean =>
  known.stamp === stamp && known.proxy === proxy && known.host === host;

function keptOf(going: OutgoingRequest, middle: string): CachedHead {
  const { host, stamp, proxy } = going;
  const bare = "/";
  return {
    middle: inOnePiece(middle),
    isBare: targetWith(bare, going) === bare,
    host,
    stamp,
    proxy,
  };
}

const names = new WeakMap<Attachment, ReadonlySet<string>>();

/** Returns the names, in lower case, of the fields that the credentials set. */
export function credentialFieldNames(attachment: Attachment): ReadonlySet<string> {
  const known = names.get(attachment);
  if (known !== undefined) return known;
  const made = new Set(
    attachment.kind === "fixed" ? attachment.headers.map(([name]) => lowerCase(name)) : attachment.headerNames,
  );
  names.set(attachment, made);
  return made;
}

interface Defaults {
  readonly defaults: Readonly<Record<string, string>>;
  /** Names of fields that the credentials or Latchkey set. */
  readonly own: ReadonlySet<string>;
}

/** Adds the fields that the provider wants with every request, unless the caller sends its own. */
function addDefaults(fields: string[], { defaults, own }: Defaults): void {
  for (const name in defaults) {
    const lower = lowerCase(name);
    if (!own.has(lower) && !fields.some((one, i) => i % 2 === 0 && lowerCase(one) === lower))
      fields.push(name, defaults[name] ?? "");
  }
}

interface AddedFields {
  readonly attachment: Attachment;
  readonly proxy: ProxyRules | undefined;
}

/** Returns the caller's path and query byte for byte, except for parameters that the credentials set. */
function targetWith(path: string, { attachment, proxy }: AddedFields): string {
  const { query: brought = noQuery } = attachment;
  const defaults = proxy === undefined ? [] : Object.entries(proxy.query);
  if (brought.length === 0 && defaults.length === 0) return path;
  const at = path.indexOf("?");
  const [bare, query] = at === -1 ? [path, ""] : [path.slice(0, at), path.slice(at + 1)];
  const own = new Set(brought.map(([name]) => name));
  const kept = query === "" ? [] : query.split("&").filter((part) => !own.has(parameterName(part)));
  const sent = new Set(kept.map(parameterName));
  const added = [...defaults.filter(([name]) => !sent.has(name) && !own.has(name)), ...brought];
  return `${bare}?${[...kept, ...added.map(encoded)].join("&")}`;
}

const noQuery: readonly NameValue[] = [];

const encoded = ([name, value]: NameValue): string => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;

function parameterName(part: string): string {
  const [name = ""] = part.split("=", 1);
  const plain = name.replaceAll("+", " ");
  try {
    return decodeURIComponent(plain);
  } catch {
    // Cannot be one of our parameters: ours are well-formed.
    return plain;
  }
}

function draftOf({
  proxied,
  scheme,
  host,
  content,
  nowMs,
  nonce,
  providerNonce,
  target,
  fields,
}: OutgoingRequest &
  Pick<OutgoingHead, "target"> & {
    readonly fields: readonly string[];
  }): RequestDraft {
  const at = target.indexOf("?");
  const headers: NameValue[] = [];
  for (let i = 0; i < fields.length; i += 2) headers.push([lowerCase(fields[i] ?? ""), fields[i + 1] ?? ""]);
  return {
    method: proxied.method,
    scheme,
    host,
    path: at === -1 ? target : target.slice(0, at),
    query: at === -1 ? "" : target.slice(at + 1),
    headers,
    body: content,
    nowMs,
    nonce: nonce(),
    providerNonce,
  };
}
