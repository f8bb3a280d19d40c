import { crc32 } from "node:zlib";
import { lowerCase } from "../../base/http/field-name.ts";
import { trimmed } from "../../base/http/field-value.ts";
import { Memo } from "../../base/memo.ts";
import { createRecentCache } from "../../base/recent-cache.ts";

/**
 * The head of a request that is plainly well-formed and asks for nothing out of the ordinary: there is no reader of
 * HTTP/1.1 that reads it in another way.
 */
export interface RequestHead {
  readonly method: string;
  /** In origin form. */
  readonly url: string;
  /** The same object where the same fields come again. */
  readonly fields: RequestFields;
}

export interface RequestFields {
  /** Name, value, name, value, as they came. */
  readonly rawHeaders: readonly string[];
  /** Of the body; 0 where there is none. */
  readonly contentLength: number;
  /** The caller wants no further answer on this connection. */
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
/** Cut off within its path, its protocol, or its fields. */
const wellBegun = new RegExp(
  `^${start}(?: [HTP/1.]{0,8}\\r?)?$|^${line}(?:${field})*(?:${token}(?::${value}\\r?)?|\\r)?$`,
);
/** With one of these there is more to it than a head and a body of known length, or more than one reader reads. */
const extraordinary = new Set(["expect", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]);
const plainNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/**
 * A caller sends the same fields over and over: read once, they cost no more than to be looked up, a tenth of it.
 * Nothing is remembered of them but what they say.
 */
const recent = createRecentCache<RequestFields>(1_024);
const maxRememberedLength = 2_048;
/**
 * Fields that never come again, such as those of webhooks, would push out the others, and live just long enough to
 * cost a collection of garbage: what is seen for the first time leaves only its checksum. Two that share a place and
 * come in turn are never known; with so many places that are 2 in 100 of a thousand, with 4,096 they were 22.
 */
const seenOnce = new Uint32Array(65_536);

function comesAgain(lines: string): boolean {
  const checksum = crc32(lines);
  const at = checksum % seenOnce.length;
  const isAgain = seenOnce[at] === checksum;
  seenOnce[at] = checksum;
  return isAgain;
}

/** `text` is latin1 and ends with the empty line. Returns undefined for whatever is not ordinary. */
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

/** Whether what has come so far may yet become such a head. */
export const isBegunHead = (text: string): boolean => wellBegun.test(text);
