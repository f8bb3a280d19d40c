import { readFile } from "node:fs/promises";
import { buffer, text } from "node:stream/consumers";
import { findInexact } from "../../core/dialect/exact-json.ts";
import type { Terminal } from "./terminal.ts";
import { UsageMistake } from "./usage-mistake.ts";

/** The text of a file; of what is piped in, where the file is `-`. */
export async function readInput(file: string, { stdin, signal }: Pick<Terminal, "stdin" | "signal">): Promise<string> {
  if (file === "-") return text(stdin);
  try {
    return await readFile(file, { encoding: "utf8", signal });
  } catch (error) {
    throw unreadable(file, error);
  }
}

/** As `readInput`, byte for byte. */
export async function readInputBytes(
  file: string,
  { stdin, signal }: Pick<Terminal, "stdin" | "signal">,
): Promise<Uint8Array> {
  if (file === "-") return buffer(stdin);
  try {
    return await readFile(file, { signal });
  } catch (error) {
    throw unreadable(file, error);
  }
}

/** A secret that a file holds, without the line's end that editors put behind it. */
export async function readSecret(file: string, terminal: Pick<Terminal, "stdin" | "signal">): Promise<string> {
  const secret = (await readInput(file, terminal)).replace(/\r?\n$/, "");
  if (secret === "") throw new UsageMistake(`${file === "-" ? "what is piped in" : file} is empty`);
  return secret;
}

export function unreadable(file: string, error: unknown): UsageMistake {
  const { code } = error as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "there is no such file" : code === "EACCES" ? "it may not be read" : code;
  return new UsageMistake(`cannot read ${file}: ${why ?? "it cannot be opened"}`, { cause: error });
}

/** JSON as an argument: the text itself, `@file`, or `-` for what is piped in. */
export async function readJsonArgument(argument: string, terminal: Pick<Terminal, "stdin" | "signal">) {
  const file = argument === "-" ? "-" : argument.startsWith("@") ? argument.slice(1) : undefined;
  // A byte order mark is no JSON, but some editors write one.
  const json = (file === undefined ? argument : await readInput(file, terminal)).replace(/^\ufeff/, "");
  const source = file === undefined ? "the argument" : file === "-" ? "what is piped in" : file;
  const value = parseJson(json, source);
  const [mistake] = findInexact(json, { isRequest: false });
  if (mistake === undefined) return value;
  throw new UsageMistake(`${source}: ${mistake.path.join(".") || "the value"} ${mistake.message}`);
}

function parseJson(json: string, source: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    /* The parser's own message quotes what it read. */
    throw new UsageMistake(`${source} is not JSON`);
  }
}
