/** Changes to packages in the bundle, so that a start does less. Each says what it takes from a start's CPU time. */
import { readFileSync } from "node:fs";
import type { Plugin } from "esbuild";

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
 * An `import` of `node:http` reads all its properties. One of them, `WebSocket`, loads Node's whole fetch client, which
 * nothing here uses: 5 % of a start. The module itself has the same properties.
 */
const httpWithoutFetch: Plugin = {
  name: "http-without-fetch",
  setup(build) {
    build.onResolve({ filter: /^(?:node:)?http$/ }, () => ({ path: "http", namespace: "node" }));
    build.onLoad({ filter: /^http$/, namespace: "node" }, () => ({
      contents: `module.exports = process.getBuiltinModule("node:http");`,
    }));
  },
};

const beforeTypes = "files.set(file.proto.name, file);\n            if (!skipTypes) {";

/**
 * Each file of descriptors adds the types of all files that it imports, and of those that they import, as often as they
 * are imported: 2 % of a start. Once is enough.
 */
const descriptorsOnce: Plugin = {
  name: "descriptors-once",
  setup(build) {
    build.onLoad({ filter: /@bufbuild\/protobuf\/dist\/esm\/registry\.js$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      if (text.split(beforeTypes).length !== 2)
        throw new Error(`${path} is not as expected: look at this plugin again`);
      return {
        contents: text.replace(
          beforeTypes,
          `if (withDeps && files.get(file.proto.name) === file) return;\n            ${beforeTypes}`,
        ),
      };
    });
  },
};

export const quickStart: Plugin[] = [leaveOut, httpWithoutFetch, descriptorsOnce];
