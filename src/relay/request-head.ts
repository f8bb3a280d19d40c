import { lowerCase } from "../base/field-name.ts";

/**
 * The head of a request that is plainly well-formed and asks for nothing out of the ordinary: there is no reader of
 * HTTP/1.1 that reads it in another way. Its names are those of `node:http`'s `IncomingMessage`.
 */
export interface RequestHead {
  readonly method: string;
  /** In origin form. */
  readonly url: string;
  readonly httpVersion: "1.1";
  /** Name, value, name, value, as they came. */
  readonly rawHeaders: readonly string[];
  /** Of the body; 0 where there is none. */
  readonly contentLength: number;
  /** The caller wants no further answer on this connection. */
  readonly closes: boolean;
}

const start = "(GET|HEAD|POST|PUT|PATCH|DELETE) (/[\\x21-\\x7e]*)";
// RFC 9110, 5.5 and 5.6.2: no folding, no bare CR or LF, no blank before the colon.
const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const value = "[\\t\\x20-\\x7e\\x80-\\xff]*";
const lines = `${start} HTTP/1\\.1\\r\\n(?:${token}:${value}\\r\\n)*`;
const wellFormed = new RegExp(`^${lines}\\r\\n$`);
/** Cut off within its path, or within its fields. */
const wellBegun = new RegExp(`^${start}$|^${lines}(?:${token}(?::${value}\\r?)?|\\r)?$`);
/** With one of these there is more to it than a head and a body of known length, or more than one reader reads. */
const extraordinary = new Set(["expect", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]);
const plainNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/** `text` is latin1 and ends with the empty line. Returns undefined for whatever is not ordinary. */
export function parseRequestHead(text: string): RequestHead | undefined {
  const found = wellFormed.exec(text);
  if (found === null) return undefined;
  const [, method = "", url = ""] = found;
  const rawHeaders: string[] = [];
  let hosts = 0;
  let contentLength: number | undefined;
  let connection: string | undefined;
  for (let at = method.length + url.length + 12; at < text.length - 2; ) {
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
  const closes = connection === "close";
  return { method, url, httpVersion: "1.1", rawHeaders, contentLength: contentLength ?? 0, closes };
}

/** Whether what has come so far may yet become such a head. */
export const isBegunHead = (text: string): boolean => wellBegun.test(text);

function trimmed(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 32 || code === 9;
