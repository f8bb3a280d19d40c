/** Changes to packages in the bundle, so that a start does less. Each says what it takes from a start's CPU time. */
import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import type { Plugin } from "esbuild";
import { lazyDescriptors } from "./descriptors/lazy-descriptors.ts";

/** Parts that nothing here uses, and that load much of Node: processes of a cluster, and HTTP clients. */
const leaveOut: Plugin = {
  name: "leave-out",
  setup(build) {
    build.onLoad({ filter: /prom-client\/lib\/(?:cluster|pushgateway)\.js$/ }, () => ({
      contents: `module.exports = class { constructor() { throw new Error("not part of the build"); } };`,
    }));
  },
};

/**
 * An `import` of a module of Node reads all its properties, and some of them load much: `WebSocket` of `node:http` is in
 * Node's fetch client, which nothing here uses. Here only the properties that are used are read: 4 % of a start.
 */
const usedOfNode: Plugin = {
  name: "used-of-node",
  setup(build) {
    build.onResolve({ filter: /^[a-z]/ }, ({ kind, path }) => {
      const name = path.replace(/^node:/, "");
      if (!builtinModules.includes(name)) return;
      // CommonJS packages get the module itself.
      return kind === "import-statement" ? { path: name, namespace: "node" } : undefined;
    });
    build.onLoad({ filter: /.*/, namespace: "node" }, ({ path }) => {
      const names = Object.keys(process.getBuiltinModule(path) ?? {}).filter((name) => /^[a-z_$][\w$]*$/i.test(name));
      const read = names
        .filter((name) => name !== "default")
        .map((name) => `const _${name} = /* @__PURE__ */ (() => all.${name})(); export { _${name} as ${name} };`);
      return {
        contents: `const all = process.getBuiltinModule("node:${path}"); export default all; ${read.join("\n")}`,
      };
    });
  },
};

/** CEL lists the well-known types when it is loaded, which reads their files: here it does with its first registry. */
const celOnDemand: Plugin = {
  name: "cel-on-demand",
  setup(build) {
    build.onLoad({ filter: /@bufbuild\/cel\/dist\/esm\/registry\.js$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const [, types] = /^const wktRegistry = (createRegistry\(.*\));$/m.exec(text) ?? [];
      if (types === undefined || text.split("createRegistry(wktRegistry,").length !== 2) {
        throw new Error(`${path} is not as expected: look at this plugin again`);
      }
      const made = text.replace(/^const wktRegistry = .*$/m, "let wktRegistry;");
      return { contents: made.replace("createRegistry(wktRegistry,", `createRegistry(wktRegistry ??= ${types},`) };
    });
  },
};

/**
 * LevelDB's JavaScript is in the bundle, and only its native code is loaded from the package: 36 files that Node would
 * look for one by one, 3 % of a start. Strict package managers show that package to `level` alone.
 */
const levelInBundle: Plugin = {
  name: "level-in-bundle",
  setup(build) {
    build.onResolve({ filter: /^level$/ }, ({ kind, path }) =>
      kind === "require-resolve" ? { path, external: true } : undefined,
    );
    build.onResolve({ filter: /^\.\/binding$/ }, ({ importer }) =>
      /classic-level\/[^/]+\.js$/.test(importer) ? { path: "binding", namespace: "classic-level" } : undefined,
    );
    build.onLoad({ filter: /^binding$/, namespace: "classic-level" }, () => ({
      contents: `const { createRequire } = require("node:module");
        module.exports = createRequire(require.resolve("level"))("classic-level/binding.js");`,
    }));
  },
};

export const quickStart: Plugin[] = [leaveOut, usedOfNode, lazyDescriptors, celOnDemand, levelInBundle];
