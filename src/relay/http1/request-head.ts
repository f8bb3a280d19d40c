import { crc32 } from "node:zlib";
import { createKnownBytes } from "../../base/caches/known-bytes.ts";
import { createRecentCache } from "../../base/caches/recent-cache.ts";
import { sharedName } from "../../base/http/field-name.ts";
import { trimmed } from "../../base/http/field-value.ts";
import { Memo } from "../../base/memo.ts";

/**
 * The head of a request that is plainly well-formed and ordinary: every HTTP/1.1 parser reads the head in the same
 * way.
 */
export interface RequestHead {
  readonly method: string;
  /** In origin form. */
  readonly url: string;
  /** Shared object: equal headers give the same object. */
  readonly fields: RequestFields;
}

export interface RequestFields {
  /** All lines, with the empty one. */
  readonly text: string;
  /** Name, value, name, value, as received. */
  readonly rawHeaders: readonly string[];
  /** Length of the body; 0 without a body. */
  readonly contentLength: number;
  /** The client wants no further response on this connection. */
  readonly closes: boolean;
  readonly memo: Memo;
}

const start = "(GET|HEAD|POST|PUT|PATCH|DELETE) (/[\\x21-\\x7e]*)";
const line = `${start} HTTP/1\\.1\\r\\n`;
const protocolLength = " HTTP/1.1\r\n".length;
// RFC 9110, 5.5 and 5.6.2: no folding, no bare CR or LF, no blank before the colon.
const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const value = "[\\t\\x20-\\x7e\\x80-\\xff]*";
const field = `${token}:${value}\\r\\n`;
const lineFirst = new RegExp(`^${line}`);
const fieldsThen = new RegExp(`^(?:${field})+\\r\\n$`);
/** Matches a head that is cut off within its path, its protocol, or its headers. */
const wellBegun = new RegExp(
  `^${start}(?: [HTP/1.]{0,8}\\r?)?$|^${line}(?:${field})*(?:${token}(?::${value}\\r?)?|\\r)?$`,
);
/**
 * A request with one of these headers is more than a head and a body of known length, or concerns more than one
 * recipient.
 */
const extraordinary = new Set(["expect", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]);
const plainNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/**
 * Cache of parsed headers. A client repeats the same headers: a cache lookup costs a tenth of parsing. The cache
 * stores only what the headers say.
 */
const recent = createRecentCache<RequestFields>(1_024);
const maxRememberedLength = 2_048;
/** The same headers again, to be found without making a string of them. */
const knownLines = createKnownBytes<RequestFields>({ bytes: 512 * 1_024, maxLength: maxRememberedLength });
/**
 * Headers that never come again, such as those of webhooks, would evict others from the cache and live just long
 * enough to cause a garbage collection. So headers seen for the first time leave only a checksum, in one of two slots.
 */
const seenOnce = new Uint32Array(65_536);
let isInSecond = false;

function comesAgain(lines: string): boolean {
  const checksum = crc32(lines);
  // Headers that differ in a few digits have CRCs with equal ends: of a thousand numbered connections, up to 800.
  const mixed = Math.imul(checksum, 0x9e37_79b1);
  const [first, second] = [mixed >>> 16, mixed & 0xffff];
  if (seenOnce[first] === checksum || seenOnce[second] === checksum) return true;
  // In turns: otherwise two that share a slot and come in turns would evict each other each time.
  isInSecond = !isInSecond;
  seenOnce[isInSecond ? second : first] = checksum;
  return false;
}

/** `text` is latin1 and ends with the empty line. Returns undefined for a head that is not ordinary. */
export function parseRequestHead(text: string): RequestHead | undefined {
  if (!lineFirst.test(text)) return undefined;
  const methodEnd = text.indexOf(" ");
  const urlEnd = text.indexOf(" ", methodEnd + 1);
  const lines = text.slice(urlEnd + protocolLength);
  // Checked first: headers that never come again need no lookup.
  const isRepeated = lines.length <= maxRememberedLength && comesAgain(lines);
  const known = isRepeated ? recent.get(lines) : undefined;
  const fields = known ?? parseFields(lines);
  if (fields === undefined) return undefined;
  if (known !== undefined) knownLines.keep(lines, known);
  else if (isRepeated) recent.set(lines, fields);
  return { method: text.slice(0, methodEnd), url: text.slice(methodEnd + 1, urlEnd), fields };
}

function parseFields(text: string): RequestFields | undefined {
  if (!fieldsThen.test(text)) return undefined;
  const rawHeaders: string[] = [];
  let hosts = 0;
  let contentLength: number | undefined;
  let connection: string | undefined;
  for (let at = 0; at < text.length - 2; ) {
    const end = text.indexOf("\r\n", at);
    const colon = text.indexOf(":", at);
    const { name, lower } = sharedName(text.slice(at, colon));
    const value = trimmed(text, colon + 1, end);
    at = end + 2;
    rawHeaders.push(name, value);
    if (lower === "host") {
      hosts += 1;
    } else if (lower === "content-length") {
      if (contentLength !== undefined || !plainNumber.test(value)) return undefined;
      contentLength = Number(value);
    } else if (lower === "connection") {
      if (connection !== undefined) return undefined;
      connection = value.toLowerCase();
      if (connection !== "keep-alive" && connection !== "close") return undefined;
    } else if (extraordinary.has(lower)) {
      return undefined;
    }
  }
  if (hosts !== 1) return undefined;
  return { text, rawHeaders, contentLength: contentLength ?? 0, closes: connection === "close", memo: new Memo() };
}

/** Returns whether the bytes so far may still become such a head. */
export const isBegunHead = (text: string): boolean => wellBegun.test(text);

/** Writes a head as it came. */
export const textOf = ({ method, url, fields }: RequestHead): string => `${method} ${url} HTTP/1.1\r\n${fields.text}`;

const code = (text: string): number => Buffer.from(text, "latin1").readInt32LE();
/** The first four bytes of a head, by method. */
const startOf = { GET: code("GET "), HEAD: code("HEAD"), POST: code("POST"), PUT: code("PUT ") };
const emptyLine = code("\r\n\r\n");
const [http, version, blank, slash, firstSafe, lastSafe] = [code("HTTP"), code("/1.1"), 0x20, 0x2f, 0x21, 0x7e];
const lineEnd = 0x0d0a;

/**
 * Reads a head whose headers are known, and which is all of `length` bytes; undefined for any other: then
 * `parseRequestHead` decides. Equal bytes have the same meaning, whatever comes before them; nothing else is accepted
 * here but a method, a path and the protocol, as `lineFirst` does.
 */
export function knownHeadIn({ bytes, view }: ReadBytes, length: number): RequestHead | undefined {
  if (length < minHeadLength || view.getInt32(length - 4, true) !== emptyLine) return undefined;
  const method = methodAt(view);
  if (method === undefined) return undefined;
  const path = method.length + 1;
  if (view.getUint8(path - 1) !== blank || view.getUint8(path) !== slash) return undefined;
  // The empty line ends the loop.
  let at = path + 1;
  for (let next = view.getUint8(at); next >= firstSafe && next <= lastSafe; next = view.getUint8(at)) at += 1;
  if (at + protocolLength >= length || !isProtocolAt(view, at)) return undefined;
  const fields = knownLines.of(view, at + protocolLength, length);
  if (fields === undefined) return undefined;
  return { method, url: bytes.toString("latin1", path, at), fields };
}

/** What was read, in both forms. */
interface ReadBytes {
  readonly bytes: Buffer;
  readonly view: DataView;
}

/** No request is shorter: `GET / HTTP/1.1`, a host, the empty line. */
const minHeadLength = 24;

function methodAt(view: DataView): "GET" | "HEAD" | "POST" | "PUT" | undefined {
  const start = view.getInt32(0, true);
  if (start === startOf.GET) return "GET";
  if (start === startOf.POST) return "POST";
  if (start === startOf.PUT) return "PUT";
  return start === startOf.HEAD ? "HEAD" : undefined;
}

const isProtocolAt = (view: DataView, at: number): boolean =>
  view.getUint8(at) === blank &&
  view.getInt32(at + 1, true) === http &&
  view.getInt32(at + 5, true) === version &&
  view.getUint16(at + 9) === lineEnd;
