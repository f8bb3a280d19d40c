import { crc32 } from "node:zlib";
import { createRecentCache } from "../../base/caches/recent-cache.ts";
import { lowerCase } from "../../base/http/field-name.ts";
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
  const known = lines.length > maxRememberedLength ? undefined : recent.get(lines);
  const fields = known ?? parseFields(lines);
  if (fields === undefined) return undefined;
  if (known === undefined && lines.length <= maxRememberedLength && comesAgain(lines)) recent.set(lines, fields);
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
    const name = text.slice(at, colon);
    const value = trimmed(text, colon + 1, end);
    at = end + 2;
    rawHeaders.push(name, value);
    const lower = lowerCase(name);
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
  return { rawHeaders, contentLength: contentLength ?? 0, closes: connection === "close", memo: new Memo() };
}

/** Returns whether the bytes so far may still become such a head. */
export const isBegunHead = (text: string): boolean => wellBegun.test(text);
