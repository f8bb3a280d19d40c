/** Makes dist, a package that can be published: one file that runs under Node, with the data it reads beside it. */
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build as bundle } from "esbuild";
import { root } from "./steps.ts";

/** Native code cannot be bundled: its package stays a dependency. */
export const external = ["level"];

/** Returns the files that went into it, as they are named from the checkout. */
export async function build(dist: string): Promise<readonly string[]> {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist, { recursive: true });
  const { metafile } = await bundle({
    absWorkingDir: root,
    entryPoints: { latchkey: "src/main.ts" },
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
  cpSync(join(root, "src/providers/catalogue.json"), join(dist, "catalogue.json"));
  cpSync(join(root, "src/config/file.schema.json"), join(dist, "config/file.schema.json"), { recursive: true });
  cpSync(join(root, "README.md"), join(dist, "README.md"));
  writeFileSync(join(dist, "package.json"), `${JSON.stringify(manifest(), undefined, 2)}\n`);
  chmodSync(join(dist, "latchkey.js"), 0o755);
  return Object.keys(metafile.inputs);
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
    dependencies: Object.fromEntries(external.map((dependency) => [dependency, dependencies?.[dependency]])),
  };
}

if (import.meta.main) await build(join(root, "dist"));
