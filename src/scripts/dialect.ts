import { hash } from "node:crypto";
import { dirname, join } from "node:path";
import type { BuildOptions, Plugin, PluginBuild } from "esbuild";
import { stampOf } from "./folder.ts";

/**
 * zod, read before the scripts that import it: nearly all do, and it is fifty times what they write themselves. It is
 * bundled once, and a machine that has read it is pictured once; a script is read on top of that.
 */
export interface Base {
  /** The hash of its code. */
  readonly version: string;
  /** Leaves all that it exports under one global name. */
  readonly code: string;
  readonly names: readonly string[];
  /** What says that it has changed. */
  readonly inputs: readonly string[];
}

/** By the file that the package's name leads to; undefined: it cannot be read apart. */
export type BaseOf = (entry: string, folder: string) => Promise<Base | undefined>;

/** Holds what the package imports to what scripts of the folder may import. */
export type Confine = (folder: string, entry: string) => Promise<Plugin>;

/** Or a part of it, such as `zod/mini`. */
export const isZod = (path: string): boolean => /^zod(\/|$)/.test(path);

const globalName = "__base";

export function createBases(options: BuildOptions, confine: Confine): BaseOf {
  const known = new Map<string, { readonly stamp: string; readonly base: Promise<Base | undefined> }>();
  return async (entry, folder) => {
    // Whoever installs another one writes over both.
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
    // Of CommonJS nobody knows the names before it runs.
    if (names.every((name) => name === "default")) return undefined;
    return { version: hash("sha256", code).slice(0, 16), code, names, inputs };
  } catch {
    // What is wrong with it is told of whoever imports it.
    return undefined;
  }
}

/** What a script reads in its place: some of the names are words of the language. */
export const namesIn = (names: readonly string[]): string =>
  names
    .map((name, i) => `const n${i} = ${globalName}[${JSON.stringify(name)}]; export { n${i} as ${name} };`)
    .join("\n");

/** Half of zod is its messages in fifty languages. */
export function withoutLocales(onLoad: PluginBuild["onLoad"]): void {
  onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path }) => ({
    contents: 'export { default as en } from "./en.js";',
    resolveDir: dirname(path),
    loader: "js",
  }));
}

/** The folder of the package that a file is of. */
function packageOf(file: string): string {
  const parts = file.split("/");
  return parts.slice(0, parts.lastIndexOf("node_modules") + 2).join("/");
}
