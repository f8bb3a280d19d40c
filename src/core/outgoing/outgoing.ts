import type { Attachment, NameValue, RequestDraft } from "../../auth/attachment.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { createNote, type Memo } from "../../base/memo.ts";
import type { ProxyRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { outgoingFields } from "./outgoing-fields.ts";

/** A request as it goes out, but for its body. */
export interface OutgoingHead {
  /** Path and query, as they stand in the request line. */
  readonly target: string;
  /** Request line and fields with their framing and the empty line; latin1. */
  readonly head: string;
}

export interface ProxiedHead {
  readonly method: string;
  /** What follows the base path: path and query, as the caller wrote them. */
  readonly path: string;
  readonly rawHeaders: readonly string[];
  /** The same fields may be there with the next request: what is made of them is worth keeping. */
  readonly memo?: Memo | undefined;
  readonly body: "none" | "length" | "chunked";
  /** The caller's. */
  readonly key: string | undefined;
  /** It came over HTTP/2. */
  readonly isHttp2?: boolean;
}

export interface OutgoingRequest {
  readonly asked: ProxiedHead;
  readonly scheme: "https" | "http";
  /** As a Host field has it. */
  readonly host: string;
  readonly basePath: string;
  readonly attachment: Attachment;
  /** Stands for the attachment where that must not be kept; undefined: nothing is to be kept of it. */
  readonly stamp?: object | undefined;
  /** What `endingOf` says of the attachment. */
  readonly ending?: string | undefined;
  readonly proxy: ProxyRules | undefined;
  /** The answer is going to be read: it must not be compressed. */
  readonly wantsPlain: boolean;
  /** Of a signing attachment that needs it. */
  readonly content: Uint8Array | undefined;
  readonly nowMs: number;
  readonly nonce: () => string;
  /** What the provider gave to sign with. */
  readonly providerNonce?: string | undefined;
  /** Of a span of ours, in place of the caller's, which is not among its fields any more. */
  readonly traceparent?: string;
}

/** RFC 9110, 7.6.3: a gateway says that it was there. */
export const via = "1.1 latchkey";
const viaHttp2 = "2 latchkey";

/** A request in pieces, for a client that writes its requests itself. */
export interface OutgoingParts {
  readonly target: string;
  /** Name, value, name, value: all but `Host` and what frames a body, and none of the credentials. */
  readonly fields: readonly string[];
  /** Of the credentials. */
  readonly attached: readonly NameValue[];
  readonly contentLength: string | undefined;
}

/** What the caller sent, on its way to the provider, with the credentials attached: theirs in place of any of the caller's. */
export function outgoingParts(going: OutgoingRequest): OutgoingParts {
  const { asked, basePath, attachment, proxy } = going;
  const brought = namesOf(attachment);
  const replaced = going.wantsPlain ? new Set([...brought, "accept-encoding", "grpc-accept-encoding"]) : brought;
  const { pairs: fields, contentLength } = outgoingFields(asked.rawHeaders, { replaced, key: asked.key });
  if (proxy !== undefined) addDefaults(fields, { defaults: proxy.headers, own: replaced });
  if (going.wantsPlain) fields.push("Accept-Encoding", "identity");
  if (going.traceparent !== undefined) fields.push("traceparent", going.traceparent);
  const target = basePath + targetWith(asked.path, { attachment, proxy });
  const attached =
    attachment.kind === "fixed" ? attachment.headers : attachment.sign(draftOf({ ...going, target, fields })).headers;
  return { target, fields, attached, contentLength };
}

/** The same, written out. */
export function outgoing(going: OutgoingRequest): OutgoingHead {
  const { asked, host } = going;
  const { target, fields, attached, contentLength } = outgoingParts(going);
  const middle = middleOf({ host, fields, contentLength: asked.body === "chunked" ? undefined : contentLength });
  const memo = memoFor(going);
  if (memo !== undefined) kept.keep(memo, keptOf(going, middle));
  return { target, head: `${asked.method} ${target}${middle}${endOf(asked, attached)}` };
}

/** The head of a request whose fields, and what is done to them, are those of one before it; undefined: they are not. */
export function outgoingAgain(
  going: HeadInputs & Pick<OutgoingRequest, "asked" | "basePath" | "attachment">,
): string | undefined {
  const { asked, basePath, ending } = going;
  const known = asked.memo && kept.of(asked.memo);
  if (known === undefined || ending === undefined || asked.isHttp2 === true || !isOf(known, going)) return undefined;
  const path = known.isBare ? asked.path : targetWith(asked.path, going);
  return `${asked.method} ${basePath}${path}${known.middle}${ending}`;
}

/** What most heads end with that carry a fixed attachment; undefined: of any other. */
export const endingOf = (attachment: Attachment): string | undefined =>
  attachment.kind === "fixed" ? inOnePiece(endOf({ body: "none" }, attachment.headers)) : undefined;

/** The credentials, what says that we were there, and that a body comes in chunks. */
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

/** What stands between the path and the credentials. */
function middleOf({ host, fields, contentLength }: Middle): string {
  let lines = ` HTTP/1.1\r\nHost: ${host}\r\n`;
  for (let i = 0; i < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return contentLength === undefined ? lines : `${lines}Content-Length: ${contentLength}\r\n`;
}

/** Of what is written with many requests: pieces would be put together each time. */
const inOnePiece = (text: string): string => Buffer.from(text, "latin1").toString("latin1");

/** Of a request of which nothing has to be made anew but what is in its first line. */
const memoFor = ({ asked, attachment, stamp, wantsPlain, traceparent }: OutgoingRequest): Memo | undefined =>
  attachment.kind !== "fixed" ||
  stamp === undefined ||
  wantsPlain ||
  traceparent !== undefined ||
  asked.body === "chunked"
    ? undefined
    : asked.memo;

/** What a head depends on, beside the caller's fields. */
type HeadInputs = Pick<OutgoingRequest, "host" | "stamp" | "proxy" | "ending">;

/** What of a caller's fields goes on, and on what else that depends. None of it is of the credentials. */
interface CachedHead extends Omit<HeadInputs, "ending"> {
  readonly middle: string;
  /** Nothing is put behind the path. */
  readonly isBare: boolean;
}

const kept = createNote<CachedHead>();

// The key of the caller, which does not go on, is one of the fields.
const isOf = (known: CachedHead, { host, stamp, proxy }: HeadInputs): boolean =>
  known.stamp === stamp && known.proxy === proxy && known.host === host;

function keptOf(going: OutgoingRequest, middle: string): CachedHead {
  const { host, stamp, proxy } = going;
  const bare = "/";
  return {
    middle: inOnePiece(middle),
    isBare: targetWith(bare, going) === bare,
    ...{ host, stamp, proxy },
  };
}

const names = new WeakMap<Attachment, ReadonlySet<string>>();

/** Of the fields that the credentials bring, in lower case. */
export function namesOf(attachment: Attachment): ReadonlySet<string> {
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
  /** What the credentials bring, or we do. */
  readonly own: ReadonlySet<string>;
}

/** What the provider wants with every request, unless the caller sends its own. */
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

/** The caller's bytes, but for a parameter that the credentials bring. */
function targetWith(path: string, { attachment, proxy }: AddedFields): string {
  const brought = attachment.kind === "fixed" ? attachment.query : [];
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

const encoded = ([name, value]: NameValue): string => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;

function parameterName(part: string): string {
  const [name = ""] = part.split("=", 1);
  const plain = name.replaceAll("+", " ");
  try {
    return decodeURIComponent(plain);
  } catch {
    // Not ours, then: ours are well-formed.
    return plain;
  }
}

function draftOf({
  asked,
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
    method: asked.method,
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
