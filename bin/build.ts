/** Makes dist: one file that runs under Node, with the data it reads beside it. */
import { chmodSync, cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { root } from "./steps.ts";

const dist = join(root, "dist");
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
await build({
  absWorkingDir: root,
  entryPoints: { latchkey: "src/main.ts" },
  outdir: dist,
  bundle: true,
  platform: "node",
  target: "node24",
  format: "esm",
  // Native code cannot be bundled: its package stays a dependency.
  external: ["classic-level", "level"],
  // CommonJS packages among the dependencies ask for `require`.
  banner: {
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
  legalComments: "linked",
});
cpSync(join(root, "src/providers/catalogue"), join(dist, "catalogue"), { recursive: true });
cpSync(join(root, "src/config/file.schema.json"), join(dist, "config/file.schema.json"), { recursive: true });
chmodSync(join(dist, "latchkey.js"), 0o755);
