/** Builds the dashboard: hashed files that the control port serves, each with its compressed forms. */
import { hash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build as bundle, type Metafile } from "esbuild";
import { root } from "./steps.ts";

const source = join(root, "src/dashboard");
/** Where a sidecar that runs from the sources looks for the files. */
export const builtFolder = join(root, "node_modules/.cache/dashboard");
const stampFile = "sources";

export interface BuiltDashboard {
  /** Source files, relative to the checkout. */
  readonly sources: readonly string[];
  /** The files of the first page, with their sizes when compressed by gzip. */
  readonly firstPage: Readonly<Record<string, number>>;
}

/** Builds into a folder. */
export async function buildDashboard(folder: string): Promise<BuiltDashboard> {
  rmSync(folder, { recursive: true, force: true });
  const assets = join(folder, "assets");
  mkdirSync(assets, { recursive: true });
  const { metafile } = await bundle({
    absWorkingDir: root,
    entryPoints: {
      dashboard: join(source, "main.tsx"),
      style: join(source, "styles/style.css"),
      icon: join(source, "icon.svg"),
    },
    outdir: assets,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    loader: { ".svg": "copy" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: ["chrome120", "firefox121", "safari17.2"],
    jsx: "automatic",
    jsxImportSource: "preact",
    tsconfigRaw: "{}",
    minify: true,
    legalComments: "linked",
    metafile: true,
    // Preact needs no check of NODE_ENV at run time.
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const written = new Map(Object.keys(metafile.outputs).map((path) => [outputName(path), join(root, path)]));
  const named = (name: string) => {
    const found = [...written.keys()].find(
      (one) => one.startsWith(`${name.split(".")[0]}-`) && one.endsWith(extension(name)),
    );
    if (found === undefined) throw new Error(`the build made no ${name}`);
    return found;
  };
  const [script, style, icon] = ["dashboard.js", "style.css", "icon.svg"].map(named);
  const page = readFileSync(join(source, "index.html"), "utf8")
    .replace("%SCRIPT%", `/ui/assets/${script}`)
    .replace("%STYLE%", `/ui/assets/${style}`)
    .replace("%ICON%", `/ui/assets/${icon}`);
  writeFileSync(join(folder, "index.html"), page);
  for (const path of [...written.values(), join(folder, "index.html")]) compress(path);
  const first = [...staticImports(metafile, script ?? ""), style ?? "", "../index.html"];
  return {
    sources: Object.keys(metafile.inputs),
    firstPage: Object.fromEntries(first.map((name) => [name, statSync(join(assets, `${name}.gz`)).size])),
  };
}

const outputName = (path: string) => path.split("/").at(-1) ?? path;
const extension = (name: string) => name.slice(name.lastIndexOf("."));

/** The script and what it imports before it runs. */
function staticImports({ outputs }: Metafile, script: string): ReadonlySet<string> {
  const byName = new Map(Object.entries(outputs).map(([path, output]) => [outputName(path), output]));
  const found = new Set<string>();
  const follow = (name: string) => {
    if (found.has(name)) return;
    found.add(name);
    for (const { path, kind } of byName.get(name)?.imports ?? []) {
      if (kind === "import-statement") follow(outputName(path));
    }
  };
  follow(script);
  return found;
}

function compress(path: string): void {
  const bytes = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}

/** Builds for a sidecar that runs from the sources, unless nothing changed since the last build. */
export async function refreshDashboard(): Promise<void> {
  const now = sourcesHash();
  const stamp = join(builtFolder, stampFile);
  if (readIfAny(stamp) === now) return;
  // Others may build at the same time: each builds aside and the last one to finish stays.
  const { rename } = await import("node:fs/promises");
  const aside = `${builtFolder}-${process.pid}`;
  await buildDashboard(aside);
  writeFileSync(join(aside, stampFile), now);
  // Renaming is one step: a folder that is deleted file by file would be in the way of others.
  const old = `${aside}-old`;
  await rename(builtFolder, old).catch(() => {});
  await rename(aside, builtFolder).catch(() => rmSync(aside, { recursive: true, force: true }));
  rmSync(old, { recursive: true, force: true });
}

function sourcesHash(): string {
  const files = [
    ...filesIn(source),
    ...filesIn(join(root, "src/gen")),
    join(root, "bin/dashboard.ts"),
    join(root, "package-lock.json"),
  ];
  return hash(
    "sha256",
    files.map((file) => `${relative(root, file)} ${hash("sha256", readFileSync(file))}`).join("\n"),
  );
}

const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();

function readIfAny(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    /* Nothing was built yet. */
    return undefined;
  }
}

if (import.meta.main) {
  const folder = process.argv[2] ?? builtFolder;
  if (folder === builtFolder) await refreshDashboard();
  else {
    mkdirSync(dirname(folder), { recursive: true });
    const { firstPage: sizes } = await buildDashboard(folder);
    const all = Object.values(sizes).reduce((sum, size) => sum + size, 0);
    for (const [name, size] of Object.entries(sizes)) process.stdout.write(`${String(size).padStart(8)} ${name}\n`);
    process.stdout.write(`${String(all).padStart(8)} first page, gzip\n`);
  }
}
