import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createLog } from "../../base/log.ts";
import { createMetrics } from "../../base/metrics/metrics.ts";
import type { Backend } from "../../store/contract.ts";
import {
  describeStoreLocation,
  parseStoreLocation,
  type StoreLocation,
  storeLocationForms,
} from "../../store/location.ts";
import { openBackend } from "../../store/open.ts";
import type { OwnOption } from "../process/own-command.ts";
import { readSecret } from "../terminal/input.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

type Side = "from" | "to";

/** The two ways to name a store: other users of the machine can see a password in a command line. */
export const locationOptions = (side: Side, meaning: string): readonly OwnOption[] => [
  { flags: `--${side} <location>`, summary: `${meaning}: ${storeLocationForms}` },
  { flags: `--${side}-file <file>`, summary: "file with the location, if it contains a password" },
];

export interface NamedStore {
  readonly location: StoreLocation;
  /** Name for messages: without a password, and independent of the current folder. */
  readonly name: string;
}

interface StoreNaming {
  readonly side: Side;
  readonly options: Readonly<Record<string, string | true>>;
  readonly terminal: Terminal;
  /** Variable used if the option is absent. */
  readonly fallback?: "LATCHKEY_STORE";
}

export async function storeNamed({ side, options, terminal, fallback }: StoreNaming): Promise<NamedStore> {
  const [source, text] = await whatWasGiven({ side, options, terminal, ...(fallback && { fallback }) });
  const location = parseStoreLocation(text.trim());
  // Not quoted: the value may hold a password.
  if (location === undefined) throw new UsageMistake(`${source} must be ${storeLocationForms}`);
  if (location.kind === "postgres") return { location, name: describeStoreLocation(location) };
  const placed = { ...location, folder: resolve(location.folder) };
  return { location: placed, name: describeStoreLocation(placed) };
}

async function whatWasGiven({ side, options, terminal, fallback }: StoreNaming): Promise<readonly [string, string]> {
  const { [side]: typed, [`${side}-file`]: file } = options;
  if (typeof typed === "string") return [`--${side}`, typed];
  if (typeof file === "string") return [file, await readSecret(file, terminal)];
  if (fallback !== undefined) {
    const { [fallback]: value, [`${fallback}_FILE`]: valueFile } = terminal.env;
    if (value) return [fallback, value];
    if (valueFile) return [valueFile, await readSecret(valueFile, terminal)];
  }
  throw new UsageMistake(`--${side} is required: ${storeLocationForms}${fallback ? `; or set ${fallback}` : ""}`);
}

/** Refuses a folder that is not empty, even if its files are not ours. A database is checked when it is filled. */
export async function requireEmpty({ location, name }: NamedStore): Promise<void> {
  if (location.kind !== "level") return;
  const names = await readdir(join(location.folder, "store")).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  if (names.length > 0) throw new UsageMistake(`${name} is not empty: its folder "store" holds ${names.length} files`);
}

/** Errors are thrown; other log lines of a store matter only to `serve`. */
const log = createLog({ level: "error", format: "json", write: () => {} });

/** Opens a store while `use` runs. */
export async function withStore<T>(
  { location }: NamedStore,
  { create }: { readonly create: boolean },
  use: (store: Backend) => Promise<T>,
): Promise<T> {
  const store = await openBackend(location, { log, metrics: createMetrics(), create });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}
