import { byFieldName, FieldNames, isAt, lowerCase } from "../../base/http/field-name.ts";
import { afterBlanks, beforeBlanks, trimmed } from "../../base/http/field-value.ts";

/** The head of a response, parsed strictly: a head that could be read in two ways is refused. */
export interface ResponseHead {
  readonly status: number;
  readonly reason: string;
  /** Name, value, name, value: only end-to-end headers, as received. */
  readonly fields: readonly string[];
  readonly framing: Framing;
  /** Whether another request may follow on the connection. */
  readonly keepsAlive: boolean;
  /** Idle timeout of the connection, if the provider has sent one. */
  readonly idleSeconds: number | undefined;
  readonly isHttp2?: boolean;
  /** Over HTTP/2: nothing follows the head. */
  readonly isAll?: boolean;
  /**
   * Status line and `fields` without the notable ones, as unchanged lines; undefined if the fields are only available
   * separately.
   */
  readonly lines?: string | undefined;
  /** Name, value, name, value: the headers that are missing from `lines`. */
  readonly notable?: readonly string[];
  /** The position in `lines` of each header in `notable`. */
  readonly notableAt?: readonly number[];
}

/** How the end of a body is found. */
export type Framing = "none" | "chunked" | "close" | number;

/** Header names that have forwarding rules. */
export interface Notable {
  /** Lower-case names. */
  readonly names: readonly string[];
  /** Prefix of further names. */
  readonly prefix: string;
}

/** `text` is latin1 and begins with a whole head. Returns undefined for a malformed head. */
export type ReadHead = (text: string, isAnswerToHead: boolean) => ResponseHead | undefined;

/**
 * RFC 9112: a status line and field lines of tokens and visible bytes; no folding, no bare CR or LF, no NUL. Matches
 * up to the first empty line; no earlier part of the pattern can match across the empty line.
 */
const wellFormed =
  /^HTTP\/1\.[01] [1-9][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n/;
const hopByHop = [
  // `Connection: close` names this option on every connection that ends.
  "close",
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "te",
  // Node throws and ends the process for a `Trailer` next to a length. Trailers need no announcement.
  "trailer",
  "transfer-encoding",
  "upgrade",
];
const framing = ["connection", "content-length", "keep-alive", "transfer-encoding"] as const;
type FieldMeaning = (typeof framing)[number] | "hop-by-hop" | "notable";

const nameOf = byFieldName((lower) => ({ lower, isHopByHop: hopByHop.includes(lower) }));
const cr = 13;

export function createHeadReader(notable: Notable): ReadHead {
  const meanings = new FieldNames<FieldMeaning>([
    ...framing.map((name) => [name, name] as const),
    ...hopByHop.map((name) => [name, "hop-by-hop"] as const),
    ...notable.names.map((name) => [name, "notable"] as const),
  ]);
  const { prefix } = notable;
  const initial = prefix.charCodeAt(0);

  function meaningOf(text: string, from: number, to: number): FieldMeaning | undefined {
    const known = meanings.at(text, from, to);
    if (known !== undefined || (text.charCodeAt(from) | 0x20) !== initial) return known;
    return isAt(text, from, prefix) ? "notable" : undefined;
  }

  return (text, isAnswerToHead) => {
    if (!wellFormed.test(text)) return undefined;
    const read = new TextHead(text);
    // Each line is checked once; neighboring lines without a meaning are copied in one piece.
    let from = read.begin;
    let at = read.firstField;
    while (text.charCodeAt(at) !== cr) {
      const colon = text.indexOf(":", at);
      const next = text.indexOf("\r\n", colon) + 2;
      const meaning = meaningOf(text, at, colon);
      if (meaning !== undefined) {
        const fate = read.take(meaning, at, colon, next);
        if (fate === "malformed") return undefined;
        if (fate === "apart") {
          read.pass(from, at);
          if (meaning === "notable") read.leaveOut();
          from = next;
        }
      }
      at = next;
    }
    read.pass(from, at);
    return read.end(isAnswerToHead) ? read : undefined;
  };
}

/** A head as received. Its headers are only split when a caller asks for them: most are forwarded unchanged. */
class TextHead implements ResponseHead {
  readonly status: number;
  framing: Framing = "none";
  keepsAlive = false;
  idleSeconds: number | undefined;
  readonly #text: string;
  readonly #isHttp11: boolean;
  #lines = "";
  #notable: string[] = none;
  #notableAt: number[] = nowhere;
  #length: number | undefined;
  #isChunked = false;
  #options: string[] = none;
  readonly firstField: number;

  constructor(text: string) {
    this.#text = text;
    this.#isHttp11 = text.charCodeAt(7) === 49;
    this.status = numberAt(text, 9, 12);
    this.firstField = text.indexOf("\r\n", 12) + 2;
  }

  get reason(): string {
    return this.#text.slice(13, this.firstField - 2);
  }

  /** Returns where the unchanged text begins: at 0 for HTTP/1.1 with a blank before the reason. */
  get begin(): number {
    if (this.#isHttp11 && this.#text.charCodeAt(12) !== cr) return 0;
    this.#lines = statusLine(this.status, this.reason);
    return this.firstField;
  }

  get lines(): string | undefined {
    return this.#namesFields ? undefined : this.#lines;
  }

  get notable(): readonly string[] {
    return this.#notable;
  }

  get notableAt(): readonly number[] {
    return this.#notableAt;
  }

  get fields(): readonly string[] {
    const text = this.#text;
    const fields: string[] = [];
    for (let at = this.firstField; text.charCodeAt(at) !== cr; ) {
      const colon = text.indexOf(":", at);
      const end = text.indexOf("\r\n", colon);
      const name = text.slice(at, colon);
      const { lower, isHopByHop } = nameOf(name);
      const isOfNoBody = lower === "content-length" && this.status === 204;
      if (!isHopByHop && !isOfNoBody) fields.push(name, trimmed(text, colon + 1, end));
      at = end + 2;
    }
    return this.#namesFields ? withoutNamed(fields, this.#options) : fields;
  }

  /** Handles a line with a meaning. `at` is its start, `colon` its colon, `next` the start of the next line. */
  take(meaning: FieldMeaning, at: number, colon: number, next: number): "goes on" | "apart" | "malformed" {
    if (meaning === "hop-by-hop") return "apart";
    if (meaning === "content-length") {
      // Refuse a repeated length, even an equal one: another parser on the path may have used the other one.
      if (this.#length !== undefined) return "malformed";
      this.#length = lengthIn(this.#text, colon + 1, next - 2);
      if (this.#length === undefined) return "malformed";
      return this.status === 204 ? "apart" : "goes on";
    }
    const value = trimmed(this.#text, colon + 1, next - 2);
    if (meaning === "transfer-encoding") {
      if (this.#isChunked || !this.#isHttp11 || value.toLowerCase() !== "chunked") return "malformed";
      this.#isChunked = true;
    } else if (meaning === "connection") {
      const options = isCommon(value) ? [value] : optionsIn(value);
      this.#options = this.#options.length === 0 ? options : [...this.#options, ...options];
    } else if (meaning === "keep-alive") {
      const seconds = /(?:^|[ ,])timeout=(\d{1,6})/.exec(value.toLowerCase())?.[1];
      if (seconds !== undefined) this.idleSeconds = Number(seconds);
    } else {
      this.#notable = [...this.#notable, this.#text.slice(at, colon), value];
    }
    return "apart";
  }

  /** Copies lines unchanged. */
  pass(from: number, to: number): void {
    if (from < to) this.#lines += this.#text.slice(from, to);
  }

  /** Records that a notable line is missing from `lines` here. */
  leaveOut(): void {
    if (this.#notableAt === nowhere) this.#notableAt = [this.#lines.length];
    else this.#notableAt.push(this.#lines.length);
  }

  /** Returns false for a head that frames its body in two ways. */
  end(isAnswerToHead: boolean): boolean {
    const { status } = this;
    if (this.#isChunked && this.#length !== undefined) return false;
    const hasBody = !isAnswerToHead && status >= 200 && status !== 204 && status !== 304;
    this.framing = !hasBody ? "none" : this.#isChunked ? "chunked" : (this.#length ?? "close");
    const options = this.#options;
    const mayKeep = !options.includes("close") && (this.#isHttp11 || options.includes("keep-alive"));
    this.keepsAlive = this.framing !== "close" && mayKeep;
    return true;
  }

  /** The connection options name headers that are for this hop alone. */
  get #namesFields(): boolean {
    return this.#options.some((option) => option !== "close" && option !== "keep-alive");
  }
}

export const statusLine = (status: number, reason: string): string => `HTTP/1.1 ${status} ${reason}\r\n`;

/** Returns whether some of the body came with the head. A chunked body must have more than the first chunk size. */
export function hasContent(rest: Buffer, { framing }: ResponseHead): boolean {
  if (framing !== "chunked") return rest.length > 0 && framing !== "none";
  const lineEnd = rest.indexOf("\n");
  return lineEnd !== -1 && lineEnd + 1 < rest.length;
}

/** Returns whether the beginning of a head is already malformed, whatever follows. */
export const isNoHead = (text: string): boolean =>
  !"HTTP/1.".startsWith(text.slice(0, 7)) || /(?:^|[^\r])\n/.test(text);

const none: string[] = [];
const nowhere: number[] = [];
const isCommon = (connection: string): boolean => connection === "keep-alive" || connection === "close";

const optionsIn = (connection: string): string[] =>
  connection
    .toLowerCase()
    .split(",")
    .map((one) => one.trim());

/** Returns the end-to-end headers of a response that another parser has read. */
export function endToEnd(fields: readonly string[]): string[] {
  const kept: string[] = [];
  const options: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    const { lower, isHopByHop } = nameOf(name);
    if (lower === "connection") options.push(...optionsIn(value));
    if (!isHopByHop) kept.push(name, value);
  }
  return withoutNamed(kept, options);
}

/**
 * RFC 9110, 7.6.1: a header for all recipients must not be named as a connection option. The length frames the body
 * and stays: without a length the client cannot find the end of the response.
 */
function withoutNamed(fields: readonly string[], options: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const lower = lowerCase(name);
    if (lower === "content-length" || !options.includes(lower)) kept.push(name, fields[i + 1] ?? "");
  }
  return kept;
}

const mostDigits = 15;

/** Accepts digits only, and few enough for an exact number. */
function lengthIn(text: string, from: number, to: number): number | undefined {
  const start = afterBlanks(text, from, to);
  const end = beforeBlanks(text, start, to);
  if (start === end || end - start > mostDigits) return undefined;
  for (let i = start; i < end; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) return undefined;
  }
  return numberAt(text, start, end);
}

/** Parses digits. */
function numberAt(text: string, from: number, to: number): number {
  let number = 0;
  for (let i = from; i < to; i += 1) number = number * 10 + text.charCodeAt(i) - 48;
  return number;
}
