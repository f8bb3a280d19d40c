/** A JSON-RPC message that must not be forwarded: another parser could read something else from it. */
export class MessageMistake extends Error {
  override readonly name = "MessageMistake";
}

/** What a JSON-RPC message says about itself. Undefined values are missing, or are no text. */
export interface RpcMessage {
  readonly method: string | undefined;
  /** `params.name`: a tool or a prompt. */
  readonly name: string | undefined;
  /** `params.uri`: a resource. */
  readonly uri: string | undefined;
  /** The protocol version in `params._meta`. */
  readonly version: string | undefined;
  /** The id as JSON, to answer with; `null` for a notification, and for an id that is too long. */
  readonly id: string;
}

type ObjectKind = "top" | "params" | "meta" | "other";
type WatchedText = "method" | "name" | "uri" | "version" | "id";

/** Keys of each object that matter, with the text that they hold. A duplicate of any of them is a mistake. */
const watched: Readonly<Record<ObjectKind, ReadonlyMap<string, WatchedText | undefined>>> = {
  top: new Map<string, WatchedText | undefined>([
    ["jsonrpc", undefined],
    ["id", "id"],
    ["method", "method"],
    ["params", undefined],
    ["result", undefined],
    ["error", undefined],
  ]),
  params: new Map<string, WatchedText | undefined>([
    ["name", "name"],
    ["uri", "uri"],
    ["arguments", undefined],
    ["_meta", undefined],
  ]),
  meta: new Map<string, WatchedText | undefined>([["io.modelcontextprotocol/protocolVersion", "version"]]),
  other: new Map(),
};
const longestTexts: Readonly<Record<WatchedText, number>> = {
  method: 1_024,
  name: 8_192,
  uri: 8_192,
  version: 64,
  id: 256,
};

/** Some parsers ignore the case of keys, and fold these two characters to `s` and `k`. */
const folded = (key: string): string => key.toLowerCase().replaceAll("\u017f", "s").replaceAll("\u212a", "k");
const foldedKeys: Readonly<Record<ObjectKind, ReadonlySet<string>>> = {
  top: new Set([...watched.top.keys()].map(folded)),
  params: new Set([...watched.params.keys()].map(folded)),
  meta: new Set([...watched.meta.keys()].map(folded)),
  other: new Set(),
};

const maxDepth = 200;
/** Each character of a watched key may be written as an escape of 6 bytes. */
const longestKey = 256;

type Expectation = "start" | "keyOrEnd" | "key" | "colon" | "value" | "valueOrEnd" | "commaOrEnd" | "end";

interface OpenValue {
  readonly kind: ObjectKind | "list";
  readonly seen: Set<string> | undefined;
}

const quote = 0x22;
const backslash = 0x5c;
const isBlank = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
/** Letters, digits, sign and point: of numbers and of `true`, `false` and `null`. */
const isBare = (byte: number) =>
  (byte >= 0x30 && byte <= 0x39) ||
  (byte >= 0x61 && byte <= 0x7a) ||
  byte === 0x2d ||
  byte === 0x2b ||
  byte === 0x2e ||
  byte === 0x45;

/**
 * Reads method, tool and version from the bytes of a JSON-RPC message as they pass, without keeping the message. Strict:
 * whatever two parsers could read in two ways is a mistake.
 */
export class MessageScanner {
  #expects: Expectation = "start";
  readonly #open: OpenValue[] = [];
  /** The key of the value that follows, in a watched object. */
  #key = "";
  #inText: "key" | "value" | undefined;
  #isEscaped = false;
  #isBare = false;
  #captured: number[] | undefined;
  #longest = 0;
  #target: WatchedText | undefined;
  readonly #texts: Partial<Record<WatchedText, string>> = {};

  /** Whether the message is complete. Only blanks may follow. */
  get hasEnded(): boolean {
    return this.#expects === "end";
  }

  get message(): RpcMessage {
    const { method, name, uri, version, id = "null" } = this.#texts;
    return { method, name, uri, version, id };
  }

  /** Throws `MessageMistake`. */
  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += 1) {
      if (this.#inText !== undefined) {
        at = this.#readText(bytes, at);
        continue;
      }
      const byte = bytes[at] ?? 0;
      if (this.#isBare) {
        if (isBare(byte)) {
          this.#capture(byte);
          continue;
        }
        this.#endBare();
      }
      if (!isBlank(byte)) this.#readMark(byte);
    }
  }

  /** Reads a text up to its end or the end of the bytes. Returns the last position read. */
  #readText(bytes: Uint8Array, from: number): number {
    let at = from;
    for (; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0;
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === backslash) this.#isEscaped = true;
      else if (byte === quote) {
        this.#endText();
        return at;
      } else if (byte < 0x20) throw new MessageMistake("the message must be JSON: a text holds a control character");
      if (this.#captured !== undefined) this.#capture(byte);
    }
    return at;
  }

  #capture(byte: number): void {
    const captured = this.#captured;
    if (captured === undefined) return;
    if (captured.length < this.#longest) captured.push(byte);
    else if (this.#inText === "key" || this.#target === "id") this.#captured = undefined;
    else throw new MessageMistake(`the message's ${this.#target ?? "text"} must have at most ${this.#longest} bytes`);
  }

  #readMark(byte: number): void {
    const mark = String.fromCharCode(byte);
    const expects = this.#expects;
    if (expects === "start") {
      if (mark === "[") throw new MessageMistake("send one JSON-RPC message for each request, not a list of messages");
      if (mark !== "{") throw new MessageMistake("the body must be a JSON-RPC message");
      this.#begin("top");
    } else if (expects === "keyOrEnd" || expects === "key") {
      if (mark === '"') this.#beginText("key");
      else if (mark === "}" && expects === "keyOrEnd") this.#close();
      else throw notJson();
    } else if (expects === "colon") {
      if (mark !== ":") throw notJson();
      this.#expects = "value";
    } else if (expects === "value" || expects === "valueOrEnd") {
      if (mark === "]" && expects === "valueOrEnd") this.#close();
      else this.#beginValue(mark, byte);
    } else if (expects === "commaOrEnd") this.#afterValue(mark);
    else throw new MessageMistake("nothing may follow the JSON-RPC message");
  }

  #beginValue(mark: string, byte: number): void {
    if (mark === '"') this.#beginText("value");
    else if (mark === "{") this.#begin(this.#kindOfNext());
    else if (mark === "[") this.#begin("list");
    else if (isBare(byte)) {
      this.#isBare = true;
      this.#target = this.#watchedText();
      this.#captured = this.#target === "id" ? [byte] : undefined;
      this.#longest = longestTexts.id;
    } else throw notJson();
  }

  #afterValue(mark: string): void {
    const top = this.#open.at(-1);
    const isList = top?.kind === "list";
    if (mark === ",") this.#expects = isList ? "value" : "key";
    else if (mark === (isList ? "]" : "}")) this.#close();
    else throw notJson();
  }

  /** The kind of an object that is the next value. */
  #kindOfNext(): ObjectKind {
    const kind = this.#open.at(-1)?.kind;
    if (kind === "top" && this.#key === "params") return "params";
    return kind === "params" && this.#key === "_meta" ? "meta" : "other";
  }

  #begin(kind: OpenValue["kind"]): void {
    if (this.#open.length >= maxDepth) throw new MessageMistake(`the message must be at most ${maxDepth} levels deep`);
    const isWatched = kind === "top" || kind === "params" || kind === "meta";
    this.#open.push({ kind, seen: isWatched ? new Set() : undefined });
    this.#expects = kind === "list" ? "valueOrEnd" : "keyOrEnd";
  }

  #close(): void {
    this.#open.pop();
    this.#expects = this.#open.length === 0 ? "end" : "commaOrEnd";
  }

  #watchedText(): WatchedText | undefined {
    const kind = this.#open.at(-1)?.kind;
    return kind === undefined || kind === "list" ? undefined : watched[kind].get(this.#key);
  }

  #beginText(as: "key" | "value"): void {
    const top = this.#open.at(-1);
    const isWatched = top?.seen !== undefined;
    this.#inText = as;
    this.#target = as === "value" && isWatched ? this.#watchedText() : undefined;
    const isKept = as === "key" ? isWatched : this.#target !== undefined;
    this.#longest = this.#target === undefined ? longestKey : longestTexts[this.#target];
    this.#captured = isKept ? [] : undefined;
  }

  #endText(): void {
    const text = this.#captured === undefined ? undefined : decoded(this.#captured);
    const as = this.#inText;
    this.#inText = undefined;
    this.#captured = undefined;
    if (as === "key") {
      this.#noteKey(text ?? "");
      this.#expects = "colon";
      return;
    }
    if (this.#target !== undefined && text !== undefined) {
      this.#texts[this.#target] = this.#target === "id" ? JSON.stringify(text) : text;
    }
    this.#expects = "commaOrEnd";
  }

  #endBare(): void {
    const text = this.#captured === undefined ? undefined : String.fromCharCode(...this.#captured);
    if (text !== undefined && /^-?(?:0|[1-9]\d{0,15})$/.test(text)) this.#texts.id = text;
    this.#isBare = false;
    this.#captured = undefined;
    this.#expects = "commaOrEnd";
  }

  #noteKey(key: string): void {
    this.#key = key;
    const top = this.#open.at(-1);
    if (top?.seen === undefined || top.kind === "list") return;
    if (!watched[top.kind].has(key)) {
      if (!foldedKeys[top.kind].has(folded(key))) return;
      throw new MessageMistake("the message has a key that differs from one of the protocol only in its case");
    }
    if (top.seen.has(key)) throw new MessageMistake(`the message names \`${key}\` twice`);
    top.seen.add(key);
  }
}

const notJson = () => new MessageMistake("the message must be JSON");
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes the bytes between the quotes of a text. */
function decoded(bytes: readonly number[]): string {
  try {
    return JSON.parse(`"${utf8.decode(Uint8Array.from(bytes))}"`) as string;
  } catch {
    throw new MessageMistake("the message must be JSON in UTF-8");
  }
}
