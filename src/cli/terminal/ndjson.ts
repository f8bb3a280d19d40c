import type { Mistake } from "../../base/fault.ts";
import { findInexact } from "../../core/dialect/exact-json.ts";

/** A line of a file of JSON objects, with its end position. */
export interface NdjsonLine {
  /** Counts from 1, including blank lines. */
  readonly line: number;
  /** Bytes from the start of the file to the end of the line. */
  readonly end: number;
  readonly content: LineValue | { readonly wrong: LineMistake };
}

export interface LineValue {
  readonly value: unknown;
  readonly bytes: number;
  /** Values that JSON parsing changed, such as a number with too many digits. */
  readonly inexact: readonly Mistake[];
}

/** Why a line holds no object. Uses the code of the same mistake in a request. */
export interface LineMistake {
  readonly code: "invalid_json" | "payload_too_large";
  readonly message: string;
}

export const maxLineBytes = 1024 * 1024;

const newline = 0x0a;
const carriageReturn = 0x0d;

/**
 * Reads newline-delimited JSON, with at most one line in memory. An invalid line is reported, and reading continues
 * with the next; no value is ever read from part of a line. Accepts CRLF, blank lines, and a byte order mark at the
 * very start.
 */
export async function* readNdjson(source: AsyncIterable<Uint8Array>): AsyncGenerator<NdjsonLine> {
  const pending = createLineBuffer();
  let line = 0;
  let end = 0;

  function* finish(): Generator<NdjsonLine> {
    line += 1;
    const content = readLine(pending.take(), line);
    if (content !== undefined) yield { line, end, content };
  }

  for await (const chunk of source) {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      pending.add(chunk.subarray(start, at));
      end += at + 1 - start;
      start = at + 1;
      yield* finish();
    }
    pending.add(chunk.subarray(start));
    end += chunk.length - start;
  }
  if (!pending.isEmpty()) yield* finish();
}

/** Collects the pieces of a line; for an overlong line, keeps only that fact. */
function createLineBuffer() {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  return {
    add(piece: Uint8Array) {
      bytes += piece.length;
      if (bytes > maxLineBytes) pieces = [];
      else if (piece.length > 0) pieces.push(piece);
    },
    isEmpty: () => bytes === 0,
    /** Undefined for an overlong line. */
    take(): Uint8Array | undefined {
      const [only, ...others] = pieces;
      const whole = only !== undefined && others.length === 0 ? only : Buffer.concat(pieces);
      const result = bytes > maxLineBytes ? undefined : whole;
      pieces = [];
      bytes = 0;
      return result;
    },
  };
}

// The byte order mark is removed by hand: anywhere but at the start, it is a mistake.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined for a blank line. */
function readLine(bytes: Uint8Array | undefined, line: number): NdjsonLine["content"] | undefined {
  if (bytes === undefined) return wrong("payload_too_large", "is longer than 1 MiB");
  const text = decode(withoutEnds(bytes, line));
  if (text === undefined)
    return wrong("invalid_json", isUtf16(bytes) ? "is UTF-16: save the file as UTF-8" : "is not UTF-8");
  if (text.includes("\0")) return wrong("invalid_json", `holds a NUL, as its character ${text.indexOf("\0") + 1}`);
  if (text.trim() === "") return undefined;
  return parse(text, bytes.length);
}

function withoutEnds(bytes: Uint8Array, line: number): Uint8Array {
  const hasMark = line === 1 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return bytes.subarray(hasMark ? 3 : 0, bytes.at(-1) === carriageReturn ? -1 : undefined);
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    /* Replacing invalid bytes would silently change a secret. */
    return undefined;
  }
}

/** UTF-16, PowerShell's default, and the most common reason for a file that is not UTF-8. */
const isUtf16 = ([first, second]: Uint8Array) =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);

function parse(text: string, bytes: number): NdjsonLine["content"] {
  try {
    const value: unknown = JSON.parse(text);
    if (Array.isArray(value)) return wrong("invalid_json", "is an array; each line must be one object");
    if (typeof value !== "object" || value === null) return wrong("invalid_json", "must be a JSON object");
    return { value, bytes, inexact: findInexact(text) };
  } catch (error) {
    // The rest of the parser's message quotes the input, which holds secrets.
    const [, position] = /at position (\d+)/.exec(error instanceof Error ? error.message : "") ?? [];
    return wrong(
      "invalid_json",
      `is not JSON${position === undefined ? "" : `, from its character ${Number(position) + 1}`}`,
    );
  }
}

const wrong = (code: LineMistake["code"], message: string) => ({ wrong: { code, message: `the line ${message}` } });
