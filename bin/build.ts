/** Makes dist, a package that can be published: one file that runs under Node, with the data it reads beside it. */
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildOptions, build as bundle } from "esbuild";
import { bundlePrelude } from "../src/scripts/bundle.ts";
import { buildDashboard } from "./dashboard.ts";
import { writeServe } from "./joined.ts";
import { quickStart } from "./quick-start.ts";
import { type Lock, shrinkwrapOf } from "./shrinkwrap.ts";
import { root, tool } from "./steps.ts";

/** Packages that stay dependencies: native code and WebAssembly cannot be bundled; zod is bundled into scripts. */
export const external = ["level", "esbuild", "@jitl/quickjs-ng-wasmfile-release-sync", "zod"];

/**
 * The program. V8's compiled code is kept beside it, which takes a quarter of the start: Node reads it if the folder is
 * there, and writes it at the end of a process that may write there. Nobody may write there who may not change the program.
 */
const program = `#!/usr/bin/env node
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

enableCompileCache({ directory: fileURLToPath(new URL("compiled", import.meta.url)), portable: true });
// As deployments start it: in one file.
await import(process.argv.length === 3 && process.argv[2] === "serve" ? "./serve.js" : "./main.js");
`;

/**
 * Returns the source files of all bundles, relative to the checkout. `further` programs, by their names, share the
 * bundles of the program.
 */
export async function build(dist: string, further: Readonly<Record<string, string>> = {}): Promise<readonly string[]> {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist, { recursive: true });
  const options = {
    absWorkingDir: root,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "esm",
    // What is imported on demand is a file of its own: an edge never reads the store, nor a server the commands.
    splitting: true,
    // Its JavaScript is bundled: see `quickStart`.
    external: external.filter((name) => name !== "level"),
    plugins: quickStart,
    // CommonJS packages among the dependencies need `require`.
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    // Less source to read and to keep in memory. Names stay, and lines stay short enough for stack traces.
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 160,
  } as const satisfies BuildOptions;
  const { metafile } = await bundle({
    ...options,
    // Each thread is a program of its own, and script authors' tools read the module that scripts import.
    entryPoints: {
      ...{ main: "src/main.ts", "script-thread": "src/scripts/thread.ts", scripts: "src/scripts/sdk.ts" },
      ...further,
    },
    outdir: dist,
    legalComments: "linked",
    metafile: true,
  });
  await writeServe({ options, dist });
  const { sources } = await buildDashboard(join(dist, "dashboard"));
  writeFileSync(join(dist, "script-guest.js"), await bundlePrelude(join(root, "src/scripts/guest/main.ts")));
  scriptTypes(dist);
  writeFileSync(join(dist, "latchkey.js"), program);
  for (const name of ["catalogue.json", "provider.schema.json"])
    cpSync(join(root, "src/providers", name), join(dist, name));
  cpSync(join(root, "src/config/file.schema.json"), join(dist, "config/file.schema.json"), { recursive: true });
  cpSync(join(root, "docs/openapi.json"), join(dist, "openapi.json"));
  cpSync(join(root, "README.md"), join(dist, "README.md"));
  const packageManifest = manifest();
  writeFileSync(join(dist, "package.json"), `${JSON.stringify(packageManifest, undefined, 2)}\n`);
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  writeFileSync(
    join(dist, "npm-shrinkwrap.json"),
    `${JSON.stringify(shrinkwrapOf(lock, packageManifest), undefined, 2)}\n`,
  );
  chmodSync(join(dist, "latchkey.js"), 0o755);
  return [...Object.keys(metafile.inputs), ...sources];
}

/** Writes the types of the module that scripts import: one file, since `sdk.ts` imports nothing. */
function scriptTypes(dist: string): void {
  const output = join(dist, "types");
  const [source, options] = [join(root, "src/scripts/sdk.ts"), ["--target", "es2023", "--module", "nodenext"]];
  if (
    !tool("tsc", source, ...options, "--ignoreConfig", "--declaration", "--emitDeclarationOnly", "--outDir", output)
  ) {
    throw new Error("cannot generate the types of scripts");
  }
  cpSync(join(output, "sdk.d.ts"), join(dist, "scripts.d.ts"));
  rmSync(output, { recursive: true });
}

/** The package's manifest: the fields that its users need. They bring their own Node. */
function manifest() {
  const { name, version, description, license, type, engines, dependencies } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8"),
  ) as Record<string, Record<string, string>>;
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    bin: { latchkey: "latchkey.js" },
    exports: { "./scripts": { types: "./scripts.d.ts", default: "./scripts.js" }, "./package.json": "./package.json" },
    dependencies: Object.fromEntries(external.map((dependency) => [dependency, dependencies?.[dependency]])),
  };
}

if (import.meta.main) await build(join(root, "dist"));
