import { readFile } from "node:fs/promises";
import { buffer, text } from "node:stream/consumers";
import { findInexact } from "../../core/dialect/exact-json.ts";
import type { Terminal } from "./terminal.ts";
import { UsageMistake } from "./usage-mistake.ts";

/** Reads the text of a file, or standard input for `-`. */
export async function readInput(file: string, { stdin, signal }: Pick<Terminal, "stdin" | "signal">): Promise<string> {
  if (file === "-") return text(stdin);
  try {
    return await readFile(file, { encoding: "utf8", signal });
  } catch (error) {
    throw unreadable(file, error);
  }
}

/** Like `readInput`, but returns bytes. */
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

/** Reads a secret from a file, without the final line break that editors add. */
export async function readSecret(file: string, terminal: Pick<Terminal, "stdin" | "signal">): Promise<string> {
  const secret = (await readInput(file, terminal)).replace(/\r?\n$/, "");
  if (secret === "") throw new UsageMistake(`${file === "-" ? "stdin" : file} is empty`);
  return secret;
}

export function unreadable(file: string, error: unknown): UsageMistake {
  const { code } = error as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "no such file" : code === "EACCES" ? "permission denied" : code;
  return new UsageMistake(`cannot read ${file}: ${why ?? "it cannot be opened"}`, { cause: error });
}

/** Reads JSON from an argument: the text itself, `@file`, or `-` for standard input. */
export async function readJsonArgument(argument: string, terminal: Pick<Terminal, "stdin" | "signal">) {
  const file = argument === "-" ? "-" : argument.startsWith("@") ? argument.slice(1) : undefined;
  // A byte order mark is not valid JSON, but some editors write one.
  const json = (file === undefined ? argument : await readInput(file, terminal)).replace(/^\ufeff/, "");
  const source = file === undefined ? "the argument" : file === "-" ? "stdin" : file;
  const value = parseJson(json, source);
  const [mistake] = findInexact(json, { isRequest: false });
  if (mistake === undefined) return value;
  throw new UsageMistake(`${source}: ${mistake.path.join(".") || "the value"} ${mistake.message}`);
}

function parseJson(json: string, source: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    /* The parser's own message would quote the input. */
    throw new UsageMistake(`${source} is not JSON`);
  }
}
