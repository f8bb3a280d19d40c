/** Makes dist, a package that can be published: one file that runs under Node, with the data it reads beside it. */
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build as bundle } from "esbuild";
import { bundlePrelude } from "../src/scripts/bundle.ts";
import { type Lock, shrinkwrapOf } from "./shrinkwrap.ts";
import { root, tool } from "./steps.ts";

/** Native code and WebAssembly cannot be bundled, and zod is read into the customers' bundles: their packages stay dependencies. */
export const external = ["level", "esbuild", "@jitl/quickjs-ng-wasmfile-release-sync", "zod"];

/** Returns the files that went into it, as they are named from the checkout. */
export async function build(dist: string): Promise<readonly string[]> {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist, { recursive: true });
  const { metafile } = await bundle({
    absWorkingDir: root,
    // A thread is a program of its own, and what scripts import is read by their authors' tools.
    entryPoints: { latchkey: "src/main.ts", "script-thread": "src/scripts/thread.ts", scripts: "src/scripts/sdk.ts" },
    outdir: dist,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "esm",
    external,
    // CommonJS packages among the dependencies ask for `require`.
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    legalComments: "linked",
    metafile: true,
  });
  writeFileSync(join(dist, "script-guest.js"), await bundlePrelude(join(root, "src/scripts/guest/main.ts")));
  scriptTypes(dist);
  cpSync(join(root, "src/providers/catalogue.json"), join(dist, "catalogue.json"));
  cpSync(join(root, "src/config/file.schema.json"), join(dist, "config/file.schema.json"), { recursive: true });
  cpSync(join(root, "README.md"), join(dist, "README.md"));
  const described = manifest();
  writeFileSync(join(dist, "package.json"), `${JSON.stringify(described, undefined, 2)}\n`);
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  writeFileSync(join(dist, "npm-shrinkwrap.json"), `${JSON.stringify(shrinkwrapOf(lock, described), undefined, 2)}\n`);
  chmodSync(join(dist, "latchkey.js"), 0o755);
  return Object.keys(metafile.inputs);
}

/** What scripts import, as types: `sdk.ts` stands alone, so that it is one file. */
function scriptTypes(dist: string): void {
  const made = join(dist, "types");
  const [source, options] = [join(root, "src/scripts/sdk.ts"), ["--target", "es2023", "--module", "nodenext"]];
  if (!tool("tsc", source, ...options, "--ignoreConfig", "--declaration", "--emitDeclarationOnly", "--outDir", made)) {
    throw new Error("the types of scripts could not be made");
  }
  cpSync(join(made, "sdk.d.ts"), join(dist, "scripts.d.ts"));
  rmSync(made, { recursive: true });
}

/** Of the checkout's manifest what concerns those who install the package: they bring their own Node. */
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
