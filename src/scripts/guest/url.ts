import { settableUrlParts } from "../url-parts.ts";
import { host } from "./port.ts";

/** The parts of a URL by their WHATWG names. */
interface UrlParts {
  readonly href: string;
  readonly origin: string;
  readonly protocol: string;
  readonly username: string;
  readonly password: string;
  readonly host: string;
  readonly hostname: string;
  readonly port: string;
  readonly pathname: string;
  readonly search: string;
  readonly hash: string;
}

/** Encodes spaces as plus signs, and all but a few characters: WHATWG URL, 5.2. */
const encode = (text: string) =>
  encodeURIComponent(text.toWellFormed())
    .replaceAll("%20", "+")
    .replaceAll(/[!'()~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

function decode(text: string): string {
  const spaced = text.replaceAll("+", " ");
  try {
    return decodeURIComponent(spaced);
  } catch {
    // An invalid percent sign stays as it is; the rest is still decoded.
    return spaced.replaceAll(/(?:%[\da-f]{2})+/gi, (run) => {
      try {
        return decodeURIComponent(run);
      } catch {
        return run;
      }
    });
  }
}

type Init = string | Iterable<readonly [string, string]> | Readonly<Record<string, unknown>> | undefined;

export class URLSearchParams {
  #pairs: [string, string][];
  /** Called on each change, by the URL that owns these parameters. */
  #changed: (() => void) | undefined;

  constructor(init?: Init, changed?: () => void) {
    this.#changed = changed;
    if (typeof init === "string") this.#pairs = pairsOf(init);
    else if (init === undefined || init === null) this.#pairs = [];
    else {
      const list = Symbol.iterator in init ? [...(init as Iterable<readonly [string, string]>)] : Object.entries(init);
      this.#pairs = list.map(([name, value]) => [String(name), String(value)]);
    }
  }

  get size(): number {
    return this.#pairs.length;
  }
  get(name: string): string | null {
    return this.#pairs.find(([one]) => one === name)?.[1] ?? null;
  }
  getAll(name: string): string[] {
    return this.#pairs.filter(([one]) => one === name).map(([, value]) => value);
  }
  has(name: string, value?: string): boolean {
    return this.#pairs.some(([one, its]) => one === name && (value === undefined || its === value));
  }
  append(name: string, value: unknown): void {
    this.#pairs.push([String(name), String(value)]);
    this.#changed?.();
  }
  set(name: string, value: unknown): void {
    const at = this.#pairs.findIndex(([one]) => one === name);
    if (at === -1) this.#pairs.push([String(name), String(value)]);
    else {
      this.#pairs = this.#pairs.filter(([one], i) => one !== name || i === at);
      this.#pairs[at] = [name, String(value)];
    }
    this.#changed?.();
  }
  delete(name: string, value?: string): void {
    this.#pairs = this.#pairs.filter(([one, its]) => one !== name || (value !== undefined && its !== value));
    this.#changed?.();
  }
  sort(): void {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : Number(a > b)));
    this.#changed?.();
  }
  forEach(each: (value: string, name: string, all: URLSearchParams) => void): void {
    for (const [name, value] of this.#pairs) each(value, name, this);
  }
  *entries(): IterableIterator<[string, string]> {
    yield* this.#pairs.map(([name, value]): [string, string] => [name, value]);
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.#pairs) yield name;
  }
  *values(): IterableIterator<string> {
    for (const [, value] of this.#pairs) yield value;
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }
  toString(): string {
    return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
  }
}

function pairsOf(text: string): [string, string][] {
  const parts = text.replace(/^\?/, "").split("&");
  return parts
    .filter((part) => part !== "")
    .map((part) => {
      const at = part.indexOf("=");
      return at === -1 ? [decode(part), ""] : [decode(part.slice(0, at)), decode(part.slice(at + 1))];
    });
}

function ask(given: readonly unknown[]): UrlParts | undefined {
  const text = host("url", JSON.stringify(given), "");
  return text === undefined ? undefined : (JSON.parse(text) as UrlParts);
}

/** A URL parsed by the host's own parser. */
export class URL {
  #parts: UrlParts;
  #params: URLSearchParams | undefined;

  constructor(url: unknown, base?: unknown) {
    const parts = ask([String(url), base === undefined ? null : String(base)]);
    if (parts === undefined) throw Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL" });
    this.#parts = parts;
  }

  static canParse(url: unknown, base?: unknown): boolean {
    return ask([String(url), base === undefined ? null : String(base)]) !== undefined;
  }

  static parse(url: unknown, base?: unknown): URL | null {
    return URL.canParse(url, base) ? new URL(url, base) : null;
  }

  get searchParams(): URLSearchParams {
    this.#params ??= new URLSearchParams(this.#parts.search, () => {
      this.#set("search", this.#params?.toString() ?? "");
    });
    return this.#params;
  }

  get origin(): string {
    return this.#parts.origin;
  }

  #set(part: string, value: unknown): void {
    this.#parts = ask([this.#parts.href, null, part, String(value)]) ?? this.#parts;
  }

  toString(): string {
    return this.#parts.href;
  }
  toJSON(): string {
    return this.#parts.href;
  }

  static {
    for (const part of settableUrlParts) {
      Object.defineProperty(URL.prototype, part, {
        configurable: true,
        enumerable: true,
        get(this: URL) {
          return this.#parts[part];
        },
        set(this: URL, value: unknown) {
          this.#set(part, value);
          if (part === "href" || part === "search") this.#params = undefined;
        },
      });
    }
  }
}
