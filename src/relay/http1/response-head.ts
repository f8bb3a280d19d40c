import { byFieldName, FieldNames, isAt, lowerCase } from "../../base/http/field-name.ts";
import { afterBlanks, beforeBlanks, trimmed } from "../../base/http/field-value.ts";

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
  /**
   * A status line, and the same fields as `fields`, but for those that are notable, as lines that stand; undefined:
   * only in pieces.
   */
  readonly lines?: string | undefined;
  /** Name, value, name, value: those that `lines` is without. */
  readonly notable?: readonly string[];
}

/** How the end of a body is found. */
export type Framing = "none" | "chunked" | "close" | number;

/** Names that whoever hands an answer on has rules for. */
export interface Notable {
  /** In lower case. */
  readonly names: readonly string[];
  /** However they go on. */
  readonly prefix: string;
}

/** `text` is latin1 and begins with a whole head. Returns undefined for one that is malformed. */
export type ReadHead = (text: string, isAnswerToHead: boolean) => ResponseHead | undefined;

/**
 * RFC 9112: a status line and field lines of tokens and visible bytes; no folding, no bare CR or LF, no NUL. Up to the
 * first empty line, which nothing before it can pass over.
 */
const wellFormed =
  /^HTTP\/1\.[01] [1-9][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n/;
const hopByHop = [
  // Named by every connection that ends.
  "close",
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
    // Each line is looked at once; those that nothing is to be known of go on in one piece with their neighbours.
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
          from = next;
        }
      }
      at = next;
    }
    read.pass(from, at);
    return read.end(isAnswerToHead) ? read : undefined;
  };
}

/** A head as it came. Its fields are taken to pieces when somebody asks for them: most are handed on as they stand. */
class TextHead implements ResponseHead {
  readonly status: number;
  framing: Framing = "none";
  keepsAlive = false;
  idleSeconds: number | undefined;
  readonly #text: string;
  readonly #isHttp11: boolean;
  #lines = "";
  #notable: string[] = none;
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

  /** From where on what came goes on as it is: all of it, of our own version and with a blank before the reason. */
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

  /** What becomes of a line that means something: where it begins, its colon, where the next one begins. */
  take(meaning: FieldMeaning, at: number, colon: number, next: number): "goes on" | "apart" | "malformed" {
    if (meaning === "hop-by-hop") return "apart";
    if (meaning === "content-length") {
      // Twice is twice too often, be they equal: somebody on the way may have taken the other one.
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

  /** Lines that go on as they stand. */
  pass(from: number, to: number): void {
    if (from < to) this.#lines += this.#text.slice(from, to);
  }

  /** Returns false for one that frames its body in two ways. */
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

  /** The connection's options name fields that are for us alone. */
  get #namesFields(): boolean {
    return this.#options.some((option) => option !== "close" && option !== "keep-alive");
  }
}

export const statusLine = (status: number, reason: string): string => `HTTP/1.1 ${status} ${reason}\r\n`;

const none: string[] = [];
const isCommon = (connection: string): boolean => connection === "keep-alive" || connection === "close";

const optionsIn = (connection: string): string[] =>
  connection
    .toLowerCase()
    .split(",")
    .map((one) => one.trim());

/** Of the fields of an answer that somebody else has read: those that do not end with the connection. */
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
 * RFC 9110, 7.6.1: no field for all recipients may be named. The length frames the body, and stays: without it the
 * caller cannot find the end of the answer.
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

/** Nothing but digits, and few enough to count with. */
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

/** Of digits. */
function numberAt(text: string, from: number, to: number): number {
  let number = 0;
  for (let i = from; i < to; i += 1) number = number * 10 + text.charCodeAt(i) - 48;
  return number;
}
