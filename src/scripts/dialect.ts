import { hash } from "node:crypto";
import { dirname, join } from "node:path";
import type { BuildOptions, Plugin, PluginBuild } from "esbuild";
import { stampOf } from "./folder.ts";

/**
 * The zod package, loaded before the scripts that import it: nearly all do, and it is fifty times the size of their own
 * code. It is bundled once, and a snapshot of a machine that loaded it is taken once; scripts are loaded on top of the
 * snapshot.
 */
export interface Base {
  /** Hash of the code. */
  readonly version: string;
  /** The code puts all exports into one global variable. */
  readonly code: string;
  readonly names: readonly string[];
  /** Files that show whether the package changed. */
  readonly inputs: readonly string[];
}

/** Returns the base for the package's entry file; undefined if it cannot be bundled separately. */
export type BaseOf = (entry: string, folder: string) => Promise<Base | undefined>;

/** Restricts the package's imports to those that scripts of the folder may use. */
export type Confine = (folder: string, entry: string) => Promise<Plugin>;

/** Also matches a part of the package, such as `zod/mini`. */
export const isZod = (path: string): boolean => /^zod(\/|$)/.test(path);

const globalName = "__base";

/** By their entry files, for all bundlers of a process: bundling one takes half a second of processor time. */
const known = new Map<string, { readonly stamp: string; readonly base: Promise<Base | undefined> }>();

export function createBases(options: BuildOptions, confine: Confine): BaseOf {
  return async (entry, folder) => {
    // Installing another version overwrites both files.
    const inputs = [entry, join(packageOf(entry), "package.json")];
    const stamp = await stampOf(inputs);
    const before = known.get(entry);
    if (before?.stamp === stamp) return before.base;
    const base = bundleBase({ entry, inputs, options, plugin: await confine(folder, entry) });
    known.set(entry, { stamp, base });
    return base;
  };
}

interface Bundling {
  readonly entry: string;
  readonly inputs: readonly string[];
  readonly options: BuildOptions;
  readonly plugin: Plugin;
}

async function bundleBase({ entry, inputs, options, plugin }: Bundling): Promise<Base | undefined> {
  const { build } = await import("esbuild");
  const usual = {
    ...options,
    entryPoints: [entry],
    outfile: join(dirname(entry), "base.js"),
    plugins: [plugin],
  };
  try {
    const [whole, named] = await Promise.all([
      build({ ...usual, format: "iife", globalName, write: false }),
      build({ ...usual, format: "esm", metafile: true, write: false }),
    ]);
    const code = whole.outputFiles[0]?.text ?? "";
    const names = Object.values(named.metafile.outputs).flatMap(({ exports }) => exports);
    // The names of a CommonJS module are unknown before it runs.
    if (names.every((name) => name === "default")) return undefined;
    return { version: hash("sha256", code).slice(0, 16), code, names, inputs };
  } catch {
    // Errors are reported for the script that imports the package.
    return undefined;
  }
}

/** Returns the module that scripts import instead; export names may be reserved words. */
export const namesIn = (names: readonly string[]): string =>
  names
    .map((name, i) => `const n${i} = ${globalName}[${JSON.stringify(name)}]; export { n${i} as ${name} };`)
    .join("\n");

/** Replaces zod's messages in fifty languages, which are half of its code. */
export function withoutLocales(onLoad: PluginBuild["onLoad"]): void {
  onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path }) => ({
    contents: 'export { default as en } from "./en.js";',
    resolveDir: dirname(path),
    loader: "js",
  }));
}

/** Returns the package folder of a file. */
function packageOf(file: string): string {
  const parts = file.split("/");
  return parts.slice(0, parts.lastIndexOf("node_modules") + 2).join("/");
}
