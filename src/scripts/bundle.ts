import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { dirname, isAbsolute, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildFailure, BuildOptions, OnResolveResult, Plugin } from "esbuild";
import type { ScriptMistake } from "../core/scripts/script.ts";
import { type Base, type BaseOf, createBases, isZod, namesIn, withoutLocales } from "./dialect.ts";
import { createImportBounds, type ImportBounds, isInside } from "./import-bounds.ts";
import { placesIn } from "./stack.ts";

/** A file with everything that it imports, ready to run; or why it cannot be bundled. */
export type BundleResult = Bundle | { readonly mistakes: readonly ScriptMistake[]; readonly inputs: readonly string[] };

export interface Bundle {
  readonly code: string;
  /** JSON source map from the code to the customer's files. */
  readonly map: string;
  /** Every file in the bundle: a change to any of them changes the bundle. */
  readonly inputs: readonly string[];
  /** The base that must be loaded before the code. */
  readonly base: Base | undefined;
}

interface BundleOf {
  /** Real path, with links resolved. */
  readonly folder: string;
  /** Path within the folder. */
  readonly file: string;
}

/** Loaded on demand: not loaded without scripts. */
const esbuild = () => import("esbuild");

/** Stops the bundler's child process; the next bundle starts another. */
export async function stopBundler(): Promise<void> {
  const { stop } = await esbuild();
  await stop();
}

/** Language version that the engine supports. */
const target = "es2023";

/** Reads the prelude, which runs before every script: `createSync`, `nango`, and the few globals. */
export async function readPrelude(): Promise<string> {
  if (!import.meta.url.endsWith(".ts")) {
    return readFileSync(new URL("./script-guest.js", import.meta.url), "utf8");
  }
  return bundlePrelude(fileURLToPath(new URL("./guest/main.ts", import.meta.url)));
}

const usualOptions = {
  bundle: true,
  write: false,
  format: "iife",
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["module"],
  target,
  // Names are kept for stack traces. Shorter code loads faster and takes less memory.
  minifyWhitespace: true,
  minifySyntax: true,
  define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
  logLevel: "silent",
} as const satisfies BuildOptions;

export async function bundlePrelude(entry: string): Promise<string> {
  const { build } = await esbuild();
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "iife",
    platform: "neutral",
    target,
    minifyWhitespace: true,
    minifySyntax: true,
    logLevel: "silent",
  });
  return outputFiles[0]?.text ?? "";
}

/** A bundler that caches what scripts share. */
export type BundleScript = (of: BundleOf) => Promise<BundleResult>;

export function createBundler(): BundleScript {
  const baseOf = createBases(usualOptions, async (folder, entry) => {
    const bounds = createImportBounds(folder);
    await bounds.addPackage(entry);
    return importPlugin({ folder, bounds, inputs: new Set(), shared: async () => undefined });
  });
  return async (of) => {
    const apart = await bundleFile(of, { baseOf });
    // A machine has only one base. A script that needs several bundles all of them itself.
    return apart === "several" ? ((await bundleFile(of, {})) as BundleResult) : apart;
  };
}

async function bundleFile(
  { folder, file }: BundleOf,
  { baseOf }: { baseOf?: BaseOf },
): Promise<BundleResult | "several"> {
  const inputs = new Set<string>([join(folder, file)]);
  const bases = new Map<string, Base>();
  const entries = new Set<string>();
  const shared = async (path: string, entry: string): Promise<Base | undefined> => {
    if (baseOf === undefined || !isZod(path)) return undefined;
    entries.add(entry);
    const base = await baseOf(entry, folder);
    if (base === undefined) return undefined;
    bases.set(entry, base);
    for (const input of base.inputs) inputs.add(input);
    return base;
  };
  const bounds = createImportBounds(folder);
  const entry = join(folder, file);
  if (!(await bounds.admits({ specifier: `./${file}`, importer: entry, from: folder, path: entry }))) {
    return { mistakes: [mistakeOf(file, "the file is not in the scripts folder")], inputs: [...inputs] };
  }
  const { build } = await esbuild();
  try {
    const { outputFiles, metafile } = await build({
      ...usualOptions,
      absWorkingDir: folder,
      entryPoints: [join(folder, file)],
      outfile: join(folder, "script.js"),
      globalName: "__script",
      sourcemap: "external",
      sourcesContent: false,
      metafile: true,
      plugins: [importPlugin({ folder, bounds, inputs, shared })],
    });
    // The bundler expands import patterns (`import(`./${name}.json`)`) without calling the plugin.
    const stray = Object.keys(metafile.inputs).filter((one) => isFile(one) && !bounds.has(join(folder, one)));
    if (stray.length > 0) {
      return { mistakes: stray.map((one) => mistakeOf(file, outside(one))), inputs: [...inputs] };
    }
    if (bases.size > 0 && entries.size > 1) return "several";
    const text = (end: string) => outputFiles.find(({ path }) => path.endsWith(end))?.text ?? "";
    const [base] = bases.values();
    const mistakes = await missingGlobals({ folder, file, own: ownFiles(folder, inputs) });
    if (mistakes.length > 0) return { mistakes, inputs: [...inputs] };
    return { code: text(".js"), map: text(".map"), inputs: [...inputs], base };
  } catch (error) {
    return { mistakes: mistakesOf(error, file), inputs: [...inputs] };
  }
}

const ownFiles = (folder: string, inputs: ReadonlySet<string>): string[] =>
  [...inputs].filter((path) => isInside(folder, path) && !isPackage(path) && /\.[cm]?[jt]sx?$/.test(path));

/** Replacement name for the global whose uses are searched. */
const marked = "__latchkey_missing";
const usesOfMarked = new RegExp(`(typeof )?\\b${marked}\\b`, "g");

/**
 * Finds uses of `Intl`, which the engine lacks, in the customer's own files. The bundler does the search, since it
 * distinguishes the global from text, types, and other variables of that name. A file that checks for `Intl` with
 * `typeof` is accepted.
 */
async function missingGlobals({ folder, file, own }: BundleOf & { own: readonly string[] }): Promise<ScriptMistake[]> {
  const texts = await Promise.all(own.map((path) => readFile(path, "utf8").catch(() => "")));
  if (!texts.some((text) => /\bIntl\b/.test(text))) return [];
  const { build } = await esbuild();
  const { outputFiles } = await build({
    ...usualOptions,
    absWorkingDir: folder,
    entryPoints: [join(folder, file)],
    outfile: join(folder, "script.js"),
    sourcemap: "external",
    sourcesContent: false,
    define: { ...usualOptions.define, Intl: marked },
    plugins: [
      importPlugin({ folder, bounds: createImportBounds(folder), inputs: new Set(), shared: async () => undefined }),
    ],
  });
  const text = (end: string) => outputFiles.find(({ path }) => path.endsWith(end))?.text ?? "";
  const placeAt = placesIn(text(".map"));
  const lines = text(".js").split("\n");
  const uses = lines.flatMap((line, i) =>
    [...line.matchAll(usesOfMarked)].flatMap(({ index, 1: isAsked }) => {
      const place = placeAt(i + 1, index + 1);
      return place === undefined ? [] : [{ ...place, isAsked: isAsked !== undefined }];
    }),
  );
  const asking = new Set(uses.filter(({ isAsked }) => isAsked).map((use) => use.file));
  return uses
    .filter((use) => !asking.has(use.file))
    .map(({ file: at, line, column }) => ({ message: noIntl, file: at, line, column }));
}

const noIntl = "Intl is not available: scripts have no locale or time zone data";

/** Names that look like packages but are provided by the sandbox. */
const sandboxModules: Readonly<Record<string, string>> = {
  nango: "sdk",
  "latchkey/scripts": "sdk",
  crypto: "crypto",
  url: "url",
  buffer: "buffer",
};

/** Resolves every import: a sandbox module, a file of the customer, a package, or an error. */
function importPlugin({ folder, bounds, inputs, shared }: ImportPluginOptions): Plugin {
  const pieces = new Map<string, Base>();
  return {
    name: "latchkey",
    setup({ onResolve, onLoad, resolve }) {
      onResolve({ filter: /.*/ }, async (request): Promise<OnResolveResult | undefined> => {
        if (request.kind === "entry-point" || request.pluginData === resolvedByPlugin) return undefined;
        const own = sandboxModules[request.path.replace(/^node:/, "")];
        if (own !== undefined && request.namespace === "file") return { path: own, namespace: "latchkey" };
        const refusal = refusalOf(request.path);
        if (refusal !== undefined) return { errors: [{ text: refusal }] };
        const from = { importer: request.importer, kind: request.kind, pluginData: resolvedByPlugin } as const;
        let found = await resolve(request.path, { ...from, resolveDir: request.resolveDir });
        let { resolveDir } = request;
        // The customer's own zod comes first; otherwise Latchkey's.
        if (found.errors.length > 0 && isZod(request.path)) {
          resolveDir = dirname(fileURLToPath(import.meta.url));
          found = await resolve(request.path, { ...from, resolveDir });
          if (found.errors.length === 0) await bounds.addPackage(found.path);
        }
        if (found.errors.length > 0) {
          // A missing file may be added later: watch the folders where it was looked up.
          for (const place of [join(request.resolveDir, dirname(request.path)), folder, join(folder, "node_modules")]) {
            inputs.add(place);
          }
          // esbuild reports the error itself, with its position.
          return undefined;
        }
        if (found.path.endsWith(".node")) {
          return { errors: [{ text: `"${request.path}" cannot be imported: scripts cannot load native modules` }] };
        }
        const file = { specifier: request.path, importer: request.importer, from: resolveDir, path: found.path };
        if (isAbsolute(found.path) && !(await bounds.admits(file))) {
          return { errors: [{ text: outside(request.path) }] };
        }
        const base = await shared(request.path, found.path);
        if (base !== undefined) {
          pieces.set(found.path, base);
          return { path: found.path, namespace: "base" };
        }
        inputs.add(found.path);
        return { path: found.path, namespace: found.namespace, sideEffects: found.sideEffects };
      });
      onLoad({ filter: /.*/, namespace: "latchkey" }, ({ path }) => ({
        // CommonJS, so that a type imported as a value is merely undefined.
        contents: `module.exports = __latchkey.${path}`,
        loader: "js",
      }));
      onLoad({ filter: /.*/, namespace: "base" }, ({ path }) => ({
        contents: namesIn(pieces.get(path)?.names ?? []),
        loader: "js",
      }));
      withoutLocales(onLoad);
    },
  };
}

interface ImportPluginOptions {
  readonly folder: string;
  readonly bounds: ImportBounds;
  /** Receives every file that was found. */
  readonly inputs: Set<string>;
  readonly shared: SharedBundle;
}

type SharedBundle = (path: string, entry: string) => Promise<Base | undefined>;

const resolvedByPlugin = Symbol("resolved by ourselves");

const outside = (path: string) =>
  `"${path}" cannot be imported: it is neither in the scripts folder nor in a package installed for it`;
/** Inputs of the plugin have a namespace prefix. */
const isFile = (input: string) => !/^(latchkey|base|\(disabled\)):/.test(input);
const mistakeOf = (file: string, message: string): ScriptMistake => ({
  message,
  file,
  line: undefined,
  column: undefined,
});
const isPackage = (path: string) => path.split(sep).includes("node_modules");

function refusalOf(path: string): string | undefined {
  if (/^(https?|data|file):/.test(path))
    return `"${path}" cannot be imported: scripts can import files and packages only`;
  if (/^@nangohq(\/|$)|^nango\//.test(path)) {
    return `"${path}" cannot be imported in a script: import from "latchkey/scripts" or "nango"`;
  }
  if (!isBuiltin(path)) return undefined;
  return `"${path}" cannot be imported: scripts have no access to files, network or process`;
}

function mistakesOf(error: unknown, file: string): readonly ScriptMistake[] {
  const { errors } = error as Partial<BuildFailure>;
  if (errors === undefined) {
    const message = error instanceof Error ? error.message : "the file cannot be read";
    return [mistakeOf(file, message)];
  }
  return errors.map(({ text, location }) => ({
    message: text,
    file: location?.file ?? file,
    line: location?.line,
    // esbuild counts columns in bytes from 0.
    column: location === null || location === undefined ? undefined : location.column + 1,
  }));
}
