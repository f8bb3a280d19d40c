import { byFieldName, lowerCase } from "../base/field-name.ts";

/** The head of an answer, read strictly: what could be read in two ways is refused. */
export interface ResponseHead {
  readonly status: number;
  readonly reason: string;
  /** Name, value, name, value: end-to-end fields alone, as they came. */
  readonly fields: readonly string[];
  readonly framing: Framing;
  /** Whether another request may follow on the connection. */
  readonly keepsAlive: boolean;
  /** For how long it may be idle, when it said so. */
  readonly idleSeconds: number | undefined;
  readonly isHttp2?: boolean;
}

/** How the end of a body is found. */
export type Framing = "none" | "chunked" | "close" | number;

/** RFC 9112: a status line and field lines of tokens and visible bytes; no folding, no bare CR or LF, no NUL. */
const wellFormed =
  /^HTTP\/1\.[01] [1-9][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n$/;
const hopByHop = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "te",
  // Node ends the process over one beside a length; and what comes behind an answer needs no announcement.
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
const nameOf = byFieldName((lower) => ({ lower, isHopByHop: hopByHop.has(lower) }));

/** `text` is latin1 and ends with the empty line. Returns undefined for what is malformed. */
export function parseResponseHead(text: string, isAnswerToHead: boolean): ResponseHead | undefined {
  if (!wellFormed.test(text)) return undefined;
  const isHttp11 = text.charCodeAt(7) === 49;
  const status = Number(text.slice(9, 12));
  const lineEnd = text.indexOf("\r\n");
  const fields: string[] = [];
  let length: number | undefined;
  let isChunked = false;
  let connection = "";
  let idleSeconds: number | undefined;
  for (let at = lineEnd + 2; at < text.length - 2; ) {
    const end = text.indexOf("\r\n", at);
    const colon = text.indexOf(":", at);
    const name = text.slice(at, colon);
    const value = trimmed(text, colon + 1, end);
    at = end + 2;
    const { lower, isHopByHop } = nameOf(name);
    if (lower === "content-length") {
      // Twice is twice too often, be they equal: somebody on the way may have taken the other one.
      if (length !== undefined || !/^[0-9]{1,15}$/.test(value)) return undefined;
      length = Number(value);
      if (status === 204) continue;
    } else if (lower === "transfer-encoding") {
      if (isChunked || !isHttp11 || value.toLowerCase() !== "chunked") return undefined;
      isChunked = true;
    } else if (lower === "connection") {
      connection += `,${value.toLowerCase()}`;
    } else if (lower === "keep-alive") {
      const seconds = /(?:^|[ ,])timeout=(\d{1,6})/.exec(value.toLowerCase())?.[1];
      if (seconds !== undefined) idleSeconds = Number(seconds);
    }
    if (!isHopByHop) fields.push(name, value);
  }
  if (isChunked && length !== undefined) return undefined;
  const options = connection === "" ? [] : connection.split(",").map((one) => one.trim());
  const hasBody = !isAnswerToHead && status >= 200 && status !== 204 && status !== 304;
  const framing = !hasBody ? "none" : isChunked ? "chunked" : (length ?? "close");
  return {
    status,
    reason: text.slice(13, lineEnd),
    fields: options.length === 0 ? fields : withoutNamed(fields, options),
    framing,
    keepsAlive: framing !== "close" && !options.includes("close") && (isHttp11 || options.includes("keep-alive")),
    idleSeconds,
  };
}

/** Of the fields of an answer that somebody else has read: those that do not end with the connection. */
export function endToEnd(fields: readonly string[]): string[] {
  const kept: string[] = [];
  const options: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    const { lower, isHopByHop } = nameOf(name);
    if (lower === "connection")
      options.push(
        ...value
          .toLowerCase()
          .split(",")
          .map((one) => one.trim()),
      );
    if (!isHopByHop) kept.push(name, value);
  }
  return withoutNamed(kept, options);
}

function withoutNamed(fields: readonly string[], options: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    if (!options.includes(lowerCase(name))) kept.push(name, fields[i + 1] ?? "");
  }
  return kept;
}

function trimmed(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 32 || code === 9;
