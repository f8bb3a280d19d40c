import { type CelValue, celList, celMap } from "@bufbuild/cel";
import { policyLimits } from "./limits.ts";
import { EvaluationFailure } from "./values.ts";

/**
 * Reads a JSON body for conditions. Stricter than `JSON.parse`: a key that appears twice is an error, because the
 * provider may read the other one. Numbers are doubles; integers that a double cannot hold are ints.
 */
export function parseJsonBody(body: Uint8Array): CelValue | EvaluationFailure {
  if (body.length > policyLimits.bodyBytes) return tooLarge;
  try {
    return new JsonReader(decoder.decode(body)).read();
  } catch (error) {
    // The decoder refuses what is not UTF-8, and bytes may be a secret: no message of a parser is passed on.
    return error instanceof BodyMistake ? new EvaluationFailure(`the body ${error.message}`) : notJson;
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
export const tooLarge = new EvaluationFailure(`the body is larger than ${policyLimits.bodyBytes} bytes`);
const notJson = new EvaluationFailure("the body is not JSON in UTF-8");

class BodyMistake extends Error {}

class JsonReader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): CelValue {
    const value = this.#value();
    if (this.#next() !== undefined) throw new BodyMistake("is not JSON");
    return value;
  }

  /** Returns the next character that is not white space, without taking it. */
  #next(): string | undefined {
    white.lastIndex = this.#at;
    white.test(this.#text);
    this.#at = white.lastIndex;
    return this.#text[this.#at];
  }

  #value(): CelValue {
    switch (this.#next()) {
      case "{":
        return this.#nested(() => this.#object());
      case "[":
        return this.#nested(() => this.#array());
      case '"':
        return this.#string();
      default:
        return this.#literal();
    }
  }

  #nested(read: () => CelValue): CelValue {
    this.#depth += 1;
    if (this.#depth > policyLimits.bodyDepth) throw new BodyMistake("is nested too deeply");
    this.#at += 1;
    const value = read();
    this.#depth -= 1;
    return value;
  }

  #object(): CelValue {
    const members = new Map<string, CelValue>();
    if (this.#takes("}")) return celMap(members);
    do {
      if (this.#next() !== '"') throw new BodyMistake("is not JSON");
      const name = this.#string();
      if (members.has(name)) throw new BodyMistake("has a key twice");
      this.#require(":");
      members.set(name, this.#value());
    } while (this.#takes(","));
    this.#require("}");
    return celMap(members);
  }

  #array(): CelValue {
    const elements: CelValue[] = [];
    if (this.#takes("]")) return celList(elements);
    do elements.push(this.#value());
    while (this.#takes(","));
    this.#require("]");
    return celList(elements);
  }

  #takes(character: string): boolean {
    if (this.#next() !== character) return false;
    this.#at += 1;
    return true;
  }

  #require(character: string): void {
    if (!this.#takes(character)) throw new BodyMistake("is not JSON");
  }

  #string(): string {
    const value = this.#match(string);
    return value.includes("\\") ? String(JSON.parse(value)) : value.slice(1, -1);
  }

  #literal(): CelValue {
    const text = this.#match(literal);
    if (text === "true") return true;
    if (text === "false") return false;
    if (text === "null") return null;
    const number = Number(text);
    if (!/^-?\d+$/.test(text) || Number.isSafeInteger(number)) return number;
    const integer = BigInt(text);
    return BigInt.asIntN(64, integer) === integer ? integer : number;
  }

  #match(form: RegExp): string {
    form.lastIndex = this.#at;
    const [value] = form.exec(this.#text) ?? [];
    if (value === undefined) throw new BodyMistake("is not JSON");
    this.#at = form.lastIndex;
    return value;
  }
}

const white = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 8259 forbids them in strings.
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const literal = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
