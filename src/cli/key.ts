import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readSecret, unreadable } from "./terminal/input.ts";
import type { Terminal } from "./terminal/terminal.ts";
import { UsageMistake } from "./terminal/usage-mistake.ts";

/** Where a first `latchkey serve` or `dev` leaves the control plane's key: beside the store. */
function defaultKeyFile({ LATCHKEY_STORE: store = "" }: Terminal["env"]): string {
  const [, folder = ".latchkey"] = /^level:(.+)$/.exec(store) ?? [];
  return join(folder, "admin-key");
}

interface KeyOptions {
  readonly key?: string;
  readonly keyFile?: string;
}

/**
 * The key to call with: what was typed, else what the environment holds, else the file that latchkey itself wrote
 * beside its store. Undefined when there is none, as health needs none.
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

/** What travels in a header must be visible ASCII; anything else is a mistake that should not reach the wire. */
function checked(key: string, source: string): string {
  const trimmed = key.trim();
  if (!/^[\x21-\x7e]+$/.test(trimmed)) throw new UsageMistake(`${source} holds no key`);
  return trimmed;
}
