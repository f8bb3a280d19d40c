import { TextDecoder } from "node:util";
import type { JsonValue } from "@bufbuild/protobuf";
import { valuesAt } from "../../providers/dotted-path.ts";
import { isObject } from "../dialect/json-fields.ts";
import type { ReceivedNotification } from "./notification.ts";

/**
 * A parsed notification: each part is parsed once, on first use. Never throws, whatever strangers send. A class,
 * because one is created per notification.
 */
export class NotificationReading {
  readonly received: ReceivedNotification;
  #headers: ReceivedNotification["headers"] | undefined;
  #form: LazyValue<readonly (readonly [name: string, value: string])[] | undefined>;
  #json: LazyValue<NotificationJson | undefined>;

  constructor(received: ReceivedNotification) {
    this.received = received;
  }

  /** Each name once, with its text; repeated fields are joined (RFC 9110, section 5.3). */
  get headers(): ReceivedNotification["headers"] {
    this.#headers ??= joinedHeaders(this.received);
    return this.#headers;
  }

  /**
   * Returns the text of a field. Undefined also if the field is repeated: the provider's intent is unknown, and a
   * joined value names nothing.
   */
  header(name: string): string | undefined {
    let found: string | undefined;
    for (const [one, value] of this.received.headers) {
      if (one !== name) continue;
      if (found !== undefined) return undefined;
      found = value;
    }
    return found === undefined ? undefined : textOfField(found);
  }

  /** Returns the first parameter of that name; undefined if it does not decode. */
  query(name: string): string | undefined {
    return parameter(this.received.query, name);
  }

  /** Fields of a form in order; undefined if the body is not a form. */
  form(): readonly (readonly [name: string, value: string])[] | undefined {
    this.#form ??= { made: isForm(this.header("content-type")) ? formOf(this.received.body) : undefined };
    return this.#form.made;
  }

  /** The body, if it is a JSON object or array. */
  json(): JsonValue | undefined {
    return this.#readJson()?.value;
  }

  /** Returns the texts and numbers of the body that match the path; undefined in place of any other value. */
  textsAt(path: string): readonly (string | undefined)[] {
    return this.#readJson()?.textsAt(path) ?? [];
  }

  #readJson(): NotificationJson | undefined {
    this.#json ??= { made: readJson(this.received.body) };
    return this.#json.made;
  }
}

export const readingOf = (received: ReceivedNotification): NotificationReading => new NotificationReading(received);

type LazyValue<T> = { readonly made: T } | undefined;

/**
 * Decodes bytes as UTF-8 if valid, else as Latin-1, where every byte is a character. The same bytes always give the
 * same text, and a byte order mark is kept.
 */
export function textOf(bytes: Uint8Array): string {
  return utf8Of(bytes) ?? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

export function utf8Of(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // The bytes are not valid UTF-8.
    return undefined;
  }
}

/** Decodes the value of a header field, which has one character per byte. */
export const textOfField = (value: string): string =>
  beyondAscii.test(value) ? textOf(Buffer.from(value, "latin1")) : value;
const beyondAscii = /[\x80-\xff]/;

/** Most notifications have no repeated name and only ASCII values; their headers are returned unchanged. */
function joinedHeaders({ headers }: ReceivedNotification): ReceivedNotification["headers"] {
  if (isPlain(headers)) return headers;
  const joined = new Map<string, string>();
  for (const [name, value] of headers) {
    const before = joined.get(name);
    const text = textOfField(value);
    joined.set(name, before === undefined ? text : `${before}, ${text}`);
  }
  return [...joined];
}

/** Up to this count, comparing all names pairwise is faster than building a map. */
const fewHeaders = 24;

function isPlain(headers: ReceivedNotification["headers"]): boolean {
  if (headers.length > fewHeaders) return false;
  for (let i = 0; i < headers.length; i += 1) {
    const [name, value] = headers[i] as ReceivedNotification["headers"][number];
    if (beyondAscii.test(value)) return false;
    for (let j = 0; j < i; j += 1) if (headers[j]?.[0] === name) return false;
  }
  return true;
}

/** Parsed JSON of a notification, with its numbers as written. */
export interface NotificationJson {
  readonly value: JsonValue;
  textsAt(path: string): readonly (string | undefined)[];
}

export function readJson(bytes: Uint8Array): NotificationJson | undefined {
  const text = utf8Of(bytes);
  // Only arrays and objects are parsed; any other body is rejected without calling the parser.
  if (text === undefined || !/^[ \t\r\n]*[{[]/.test(text) || isDeep(text)) return undefined;
  const value = parsed(text);
  if (value === undefined || !(isObject(value) || Array.isArray(value))) return undefined;
  const exact = once(() => JSON.parse(text, numbersAsText) as JsonValue);
  return {
    value,
    textsAt(path) {
      const found = valuesAt(path, value);
      // JavaScript would round this number to the ID of something else: `9007199254740993`.
      const isRounded = found.some((one) => typeof one === "number" && !Number.isSafeInteger(one));
      const texts = isRounded ? valuesAt(path, exact()) : found;
      return texts.map((one) => (typeof one === "number" ? String(one) : typeof one === "string" ? one : undefined));
    },
  };
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    // The text is not valid JSON.
    return undefined;
  }
}

/** ECMAScript 2026 passes a reviver the source text of each value; TypeScript does not declare the parameter yet. */
type Reviver = (this: unknown, name: string, value: unknown, context?: { readonly source?: string }) => unknown;
const numbersAsText: Reviver = (_name, value, context) => (typeof value === "number" ? context?.source : value);

/**
 * Deeper than any real notification. Two million levels take the parser a second, and a reviver overflows the stack.
 */
const maxDepth = 500;

function isDeep(text: string): boolean {
  let depth = 0;
  let isInText = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) isInText = !isInText;
    else if (isInText) at += code === backslash ? 1 : 0;
    else if (code === openBracket || code === openBrace) {
      depth++;
      if (depth > maxDepth) return true;
    } else if (code === closeBracket || code === closeBrace) depth--;
  }
  return false;
}

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

const isForm = (type: string | undefined): boolean =>
  /^[ \t]*application\/x-www-form-urlencoded[ \t]*(?:;|$)/i.test(type ?? "");

const formOf = (body: Uint8Array) => [...new URLSearchParams(textOf(body))];

function parameter(query: string, wanted: string): string | undefined {
  for (const part of query.split("&")) {
    const [name = ""] = part.split("=", 1);
    if (decoded(name) === wanted) return decoded(part.slice(name.length + 1));
  }
  return undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    // Invalid percent-encoding: cannot be a meant value.
    return undefined;
  }
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
