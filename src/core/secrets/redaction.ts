import type { JsonValue } from "@bufbuild/protobuf";
import { plainView, type TextView, viewsOf } from "./text-views.ts";

/** Redacts text for people who may not see credentials. */
export type Redact = (text: string) => string;

export const redacted = "[redacted]";

/** This many consecutive characters of a secret reveal it, wherever they are in the secret. */
const gramLength = 8;
/** Shorter secrets would match inside any word: they are redacted only as separate words. */
const minInnerLength = 4;
/** Base64 and hex of a very short secret are a few letters that any word may contain. */
const minFormLength = 6;

/**
 * Redacts these secrets, whole or in part, in every form: as is, percent-encoded once or twice, escaped in JSON, with a
 * NUL after each letter, reversed, in base64 of either alphabet at any offset, and in hex. Also redacts anything that
 * looks like a token: a provider may quote a token that Latchkey never saw. `known` lists values that look like tokens
 * but are not, such as the ID of the subject: each is kept if it appears whole, unless it is a secret as well.
 */
export function createRedaction(
  secrets: Iterable<string>,
  known: ReadonlySet<string> = new Set(),
  { guesses = true }: RedactionOptions = {},
): Redact {
  const grams = new Set<string>();
  const shorts = new Set<string>();
  for (const form of [...new Set(secrets)].flatMap(formsOf)) {
    if (form.length < gramLength) shorts.add(form);
    for (let at = 0; at + gramLength <= form.length; at += 1) grams.add(form.slice(at, at + gramLength));
  }
  return (text) => {
    const hidden = new Uint8Array(text.length);
    for (const view of viewsOf(text)) {
      hideGrams(view, { grams, hidden });
      for (const short of shorts) hideShort(view, { short, hidden });
    }
    for (const { 0: run, index } of guesses ? text.matchAll(tokenLike) : []) {
      const [name, value] = [run.slice(0, run.indexOf("=") + 1), run.slice(run.indexOf("=") + 1)];
      if (known.has(value) && plainName.test(name)) continue;
      if (looksRandom(run)) hidden.fill(1, index, index + run.length);
    }
    return blanked(text, hidden);
  };
}

interface RedactionOptions {
  /** Redacts anything that looks like a token as well: for text that people read, not for data that programs read. */
  readonly guesses?: boolean;
}

/** Deeper data is dropped: nothing reads it, and each level is a recursive call. */
const maxDepth = 100;

/** Redacts the texts and keys of a JSON value. */
export function redactJson(value: JsonValue, redact: Redact, depth = 0): JsonValue {
  if (typeof value === "string") return redact(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth === maxDepth) return null;
  if (Array.isArray(value)) return value.map((one) => redactJson(one, redact, depth + 1));
  const entries = Object.entries(value).map(([key, one]) => [redact(key), redactJson(one, redact, depth + 1)] as const);
  return Object.fromEntries(entries);
}

/** Excludes dot, slash and colon: the parts between them are checked separately, so hosts and paths stay readable. */
const tokenLike = /[A-Za-z0-9_~+=%-]{16,}/g;

/** Allowed before a known value, such as a field name. */
const plainName = /^(?:[A-Za-z_-]{1,15}=)?$/;

/**
 * Reports whether text is more likely a token than a word: it contains digits and letters, or is longer than any word.
 */
export const looksRandom = (run: string): boolean =>
  run.length >= 16 && ((/\d/.test(run) && /[A-Za-z]/.test(run)) || /[A-Za-z0-9+]{32}/.test(run));

interface Grams {
  readonly grams: ReadonlySet<string>;
  /** Flags, one for each character of the text. */
  readonly hidden: Uint8Array;
}

function hideGrams({ letters, from, to }: TextView, { grams, hidden }: Grams): void {
  if (grams.size === 0) return;
  for (let at = 0; at + gramLength <= letters.length; at += 1) {
    if (grams.has(letters.slice(at, at + gramLength))) hidden.fill(1, from[at], to[at + gramLength - 1]);
  }
}

interface ShortSecret {
  readonly short: string;
  readonly hidden: Uint8Array;
}

function hideShort({ letters, from, to }: TextView, { short, hidden }: ShortSecret): void {
  for (let at = letters.indexOf(short); at !== -1; at = letters.indexOf(short, at + 1)) {
    const end = at + short.length;
    const isAlone = !isWordLetter(letters[at - 1]) && !isWordLetter(letters[end]);
    if (short.length >= minInnerLength || isAlone) hidden.fill(1, from[at], to[end - 1]);
  }
}

const isWordLetter = (letter = " "): boolean => /[a-z0-9]/.test(letter);

function blanked(text: string, hidden: Uint8Array): string {
  let shown = "";
  for (let at = 0; at < text.length; ) {
    const isHidden = hidden[at] === 1;
    let end = at + 1;
    while (end < text.length && (hidden[end] === 1) === isHidden) end += 1;
    shown += isHidden ? redacted : text.slice(at, end);
    at = end;
  }
  return shown;
}

/** Returns the forms of a secret to look for, as views of text show them. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  if (bytes.length === 0) return [];
  const plain = [secret, [...secret].reverse().join("")].map((form) => plainView(form).letters);
  if (secret.length < minInnerLength) return plain;
  const derived = [...base64Of(bytes), bytes.toString("hex")].filter(({ length }) => length >= minFormLength);
  return [...plain, ...derived.map((form) => form.toLowerCase())];
}

/**
 * Returns the base64 of the secret within a longer text: at each of three offsets, without the letters shared with
 * neighbors.
 */
function base64Of(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((by) => {
    const text = Buffer.concat([Buffer.alloc(by), bytes]).toString("base64");
    const own = text.slice(by === 0 ? 0 : by + 1, Math.floor(((by + bytes.length) * 8) / 6));
    return /[+/]/.test(own) ? [own, own.replaceAll("+", "-").replaceAll("/", "_")] : [own];
  });
}
