import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readSecret, unreadable } from "./terminal/input.ts";
import type { Terminal } from "./terminal/terminal.ts";
import { UsageMistake } from "./terminal/usage-mistake.ts";

/** The file beside the store to which the first `latchkey serve` or `dev` writes the control plane's key. */
function defaultKeyFile({ LATCHKEY_STORE: store = "" }: Terminal["env"]): string {
  const [, folder = ".latchkey"] = /^level:(.+)$/.exec(store) ?? [];
  return join(folder, "admin-key");
}

interface KeyOptions {
  readonly key?: string;
  readonly keyFile?: string;
}

/**
 * Returns the key to call with: the option, else the environment variable, else the file that Latchkey wrote beside its
 * store. Undefined if there is none, since `health` needs none.
 */
export async function findKey({ key, keyFile }: KeyOptions, terminal: Terminal): Promise<string | undefined> {
  const { env } = terminal;
  if (key !== undefined) return checked(key, "--key");
  if (keyFile !== undefined) return checked(await readSecret(keyFile, terminal), keyFile);
  for (const name of ["LATCHKEY_KEY", "LATCHKEY_ADMIN_KEY"]) {
    const value = env[name];
    if (value) return checked(value, name);
    const file = env[`${name}_FILE`];
    if (file) return checked(await readSecret(file, terminal), file);
  }
  return readIfThere(defaultKeyFile(env));
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return checked(await readFile(file, "utf8"), file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error instanceof UsageMistake ? error : unreadable(file, error);
  }
}

/** Header values must be visible ASCII; other characters are a mistake, and must not be sent. */
function checked(key: string, source: string): string {
  const trimmed = key.trim();
  if (!/^[\x21-\x7e]+$/.test(trimmed)) throw new UsageMistake(`${source} does not contain a valid key`);
  return trimmed;
}
