/**
 * The program of `latchkey serve` in one file. The bundle has a file for each set of modules that commands share: 74 of
 * them for `serve`, whose loading is a tenth of a start. What is loaded on demand stays apart.
 */
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";

interface Joining {
  /** The options of the bundle. */
  readonly options: BuildOptions & { readonly absWorkingDir: string };
  readonly dist: string;
}

const mainSource = "src/main.ts";
const serveSource = "src/cli/process/serve.ts";
/** Beside the main program's files, since modules find their data beside themselves. */
const joinedName = "serve-joined.js";

/** Writes `serve.js` and what it needs. */
export async function writeServe({ options, dist }: Joining): Promise<void> {
  const made = await build({
    ...options,
    entryPoints: { serve: mainSource },
    chunkNames: "serve-[name]-[hash]",
    outdir: dist,
    // Those of the bundle say the same.
    legalComments: "none",
    plugins: [onlyServe, ...(options.plugins ?? [])],
    metafile: true,
    write: false,
  });
  const texts = new Map(made.outputFiles.map(({ path, text }) => [basename(path), text]));
  const { outputs } = byName(made.metafile);
  const nameOf = (source: string): string => {
    const [found] = [...outputs].find(([, { entryPoint }]) => entryPoint === source) ?? [];
    if (found === undefined) throw new Error(`the bundle has no file of ${source}`);
    return found;
  };
  const entry = nameOf(mainSource);
  const joined = [...closureOf([entry, nameOf(serveSource)], outputs)].filter((name) => name !== entry);
  // A name of one file may be another thing in another file.
  const exported = joined.map((name, i) => ({
    name,
    pairs: (outputs.get(name)?.exports ?? []).map((own) => ({ own, ours: `_${i}_${own}` })),
  }));
  const lines = (from: (name: string) => string, pairText: (own: string, ours: string) => string) =>
    exported.map(({ name, pairs }) => ({
      name,
      text: `export { ${pairs.map(({ own, ours }) => pairText(own, ours)).join(", ")} } from "${from(name)}";`,
    }));
  await build({
    ...options,
    stdin: {
      contents: lines(
        (name) => `./${name}`,
        (own, ours) => `${own} as ${ours}`,
      )
        .map(({ text }) => text)
        .join("\n"),
      resolveDir: dist,
    },
    outfile: join(dist, joinedName),
    splitting: false,
    // Each part has the bundle's beginning already.
    banner: {},
    legalComments: "none",
    plugins: [partsFrom(texts)],
  });
  for (const [name, text] of texts) if (!joined.includes(name)) writeFileSync(join(dist, name), text);
  // What is loaded on demand imports the parts by their own names.
  const parts = lines(
    () => `./${joinedName}`,
    (own, ours) => `${ours} as ${own}`,
  );
  for (const { name, text } of parts) writeFileSync(join(dist, name), `${text}\n`);
}

/** The other commands are in the bundle: `serve.js` is started for `serve` alone. */
const onlyServe: Plugin = {
  name: "only-serve",
  setup(build) {
    build.onResolve({ filter: /^\.\// }, ({ kind, importer, path }) => {
      if (kind !== "dynamic-import" || !importer.endsWith(mainSource) || serveSource.endsWith(path.slice(1))) return;
      return { path: "./main.js", external: true };
    });
  },
};

/** Reads parts from memory. What they load on demand stays a file. */
const partsFrom = (texts: ReadonlyMap<string, string>): Plugin => ({
  name: "parts",
  setup(build) {
    build.onResolve({ filter: /^\.\// }, ({ kind, path }) =>
      kind === "dynamic-import" ? { path, external: true } : { path: basename(path), namespace: "part" },
    );
    build.onLoad({ filter: /.*/, namespace: "part" }, ({ path }) => ({ contents: texts.get(path) ?? "" }));
  },
});

type Output = Metafile["outputs"][string];

const byName = ({ outputs }: Metafile) => ({
  outputs: new Map(Object.entries(outputs).map(([path, output]) => [basename(path), output])),
});

/** The files, and those that they import at once. */
function closureOf(names: readonly string[], outputs: ReadonlyMap<string, Output>): Set<string> {
  const all = new Set<string>();
  const visit = (name: string): void => {
    if (all.has(name)) return;
    all.add(name);
    for (const { path, kind, external } of outputs.get(name)?.imports ?? []) {
      if (kind === "import-statement" && external !== true) visit(basename(path));
    }
  };
  for (const name of names) visit(name);
  return all;
}
