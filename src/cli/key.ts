import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { devKeyValue, findDevState } from "./process/dev-state.ts";
import { readSecret, unreadable } from "./terminal/input.ts";
import type { Terminal } from "./terminal/terminal.ts";
import { UsageMistake } from "./terminal/usage-mistake.ts";

/** A file beside the store to which the first `latchkey serve` or `dev` writes a key. */
function keyFileInStore(name: string, { LATCHKEY_STORE: store = "" }: Terminal["env"]): string {
  const [, folder = ".latchkey"] = /^level:(.+)$/.exec(store) ?? [];
  return join(folder, name);
}

export interface KeyOptions {
  readonly key?: string;
  readonly keyFile?: string;
}

/**
 * Returns the key to call with: the option, else the environment variable, else the file that Latchkey wrote beside its
 * store. Undefined if there is none, since `health` needs none.
 */
export async function findKey({ key, keyFile }: KeyOptions, terminal: Terminal): Promise<string | undefined> {
  if (key !== undefined) return validKey(key, "--key");
  if (keyFile !== undefined) return validKey(await readSecret(keyFile, terminal), keyFile);
  for (const name of ["LATCHKEY_KEY", "LATCHKEY_ADMIN_KEY"]) {
    const found = await readSecretVariable(name, terminal);
    if (found !== undefined) return found;
  }
  const dev = findDevState();
  const devKey = dev && devKeyValue(dev.adminKey);
  return devKey === undefined ? readIfThere("admin-key", terminal.env) : validKey(devKey, "the key of `latchkey dev`");
}

/** Reads a key from an environment variable, or from the file that the variable with the suffix `_FILE` names. */
export async function readSecretVariable(name: string, terminal: Terminal): Promise<string | undefined> {
  const value = terminal.env[name];
  if (value) return validKey(value, name);
  const file = terminal.env[`${name}_FILE`];
  return file ? validKey(await readSecret(file, terminal), file) : undefined;
}

/** Reads a key that Latchkey wrote beside its store; undefined if there is none. */
export async function readIfThere(name: string, env: Terminal["env"]): Promise<string | undefined> {
  const file = keyFileInStore(name, env);
  try {
    return validKey(await readFile(file, "utf8"), file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error instanceof UsageMistake ? error : unreadable(file, error);
  }
}

/** Header values must be visible ASCII; other characters are a mistake, and must not be sent. */
export function validKey(key: string, source: string): string {
  const trimmed = key.trim();
  if (!/^[\x21-\x7e]+$/.test(trimmed)) throw new UsageMistake(`${source} does not contain a valid key`);
  return trimmed;
}
