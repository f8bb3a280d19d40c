import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { toJsonString } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ListScriptsResponseSchema, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";

const canary = "CANARY-OF-SOMEBODY-ELSE";
const secret = JSON.stringify({ secret: canary });
const code = `export const secret = "${canary}"; export default "${canary}";`;

const script = (line: string, value = "m") => `
  import { createAction } from "latchkey/scripts";
  ${line}
  export default createAction({ description: "", exec: async () => JSON.stringify(${value}) });`;
const importing = (path: string) => script(`import * as m from ${JSON.stringify(path)};`);
const good = "module.exports = { good: 'GOOD' };";

/** A folder of scripts beside files of others, below packages that it may use. */
async function laidOut(
  scripts: (top: string) => Readonly<Record<string, string>>,
  more: (top: string) => void = () => {},
) {
  const top = await temporaryFolder();
  const write = (files: Readonly<Record<string, string>>, below: string) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(below, path)), { recursive: true });
      writeFileSync(join(below, path), text);
    }
  };
  write(
    {
      "outside.json": secret,
      "outside.txt": canary,
      "outside.ts": code,
      "outside.js": code,
      "other/node_modules/creds.json": secret,
      "other/node_modules/creds.txt": canary,
      "other/node_modules/pkg/index.js": code,
      "node_modules/.secrets.json": secret,
      "node_modules/.cache/secret.json": secret,
      "node_modules/evil/package.json": JSON.stringify({ name: "evil", main: "../../outside.json" }),
      "node_modules/sly/package.json": JSON.stringify({ name: "sly", main: "../../other/node_modules/creds.json" }),
      "node_modules/reaching/index.js": "module.exports = require('../../other/node_modules/creds.json');",
      "node_modules/good/index.js": good,
      "node_modules/good/secret-of-its-own.json": secret,
      "node_modules/@scope/part/lib/deep.js": good,
      "node_modules/asking/index.js": "module.exports = require('good');",
      "node_modules/private/package.json": JSON.stringify({ name: "private", imports: { "#own": "./own.js" } }),
      "node_modules/private/index.js": "module.exports = require('#own');",
      "node_modules/private/own.js": good,
      "node_modules/.pnpm/linked@1/node_modules/linked/index.js": "module.exports = require('beneath');",
      "node_modules/.pnpm/beneath@1/node_modules/beneath/index.js": good,
    },
    top,
  );
  symlinkSync("../../beneath@1/node_modules/beneath", join(top, "node_modules/.pnpm/linked@1/node_modules/beneath"));
  symlinkSync(".pnpm/linked@1/node_modules/linked", join(top, "node_modules/linked"));
  const folder = join(top, "scripts");
  const actions = Object.entries(scripts(top)).map(([name, text]) => [`here/actions/${name}.ts`, text] as const);
  write(Object.fromEntries(actions), folder);
  write(
    {
      "node_modules/out/package.json": JSON.stringify({ name: "out", main: "../../../outside.json" }),
      "node_modules/mapped/package.json": JSON.stringify({
        name: "mapped",
        exports: { ".": "./../../../outside.json", "./x": "../../../outside.json" },
      }),
      "node_modules/browsing/package.json": JSON.stringify({
        name: "browsing",
        main: "./index.js",
        module: "./index.js",
        browser: { "./index.js": "../../../outside.json", "./other.js": "../../../outside.js" },
      }),
      "node_modules/browsing/index.js": "module.exports = require('./other.js');",
      "node_modules/climbing/index.js": "module.exports = require('../../../other/node_modules/creds.json');",
      "node_modules/inside/index.js": good,
    },
    folder,
  );
  more(top);
  return { top, folder };
}

async function outcomesOf(folder: string): Promise<Readonly<Record<string, string>>> {
  const running = await startTestSidecar({ env: { LATCHKEY_SCRIPTS: folder } });
  const made = await running.rest("POST", "/integrations", {
    body: { unique_key: "here", provider: "example-api-key" },
  });
  expect(made.status).toBe(200);
  const body = {
    provider_config_key: "here",
    connection_id: "ada",
    credentials: { type: "API_KEY", apiKey: "the-key" },
  };
  expect((await running.rest("POST", "/connections", { body })).status).toBe(201);
  const client = running.client(SyncService);
  const list = await client.listScripts({});
  // An error of one file quotes nothing of another.
  expect(toJsonString(ListScriptsResponseSchema, list)).not.toContain(canary);
  const headers = { "provider-config-key": "here", "connection-id": "ada" };
  const outcomes: Record<string, string> = {};
  for (const { name, problem } of list.scripts) {
    const answer = await running.rest("POST", "/action/trigger", { headers, body: { action_name: name } });
    const why = problem?.violations.map(({ message }) => message).join("; ") ?? "";
    outcomes[name] = `${answer.status} ${JSON.stringify(answer.body)} ${why}`;
  }
  return outcomes;
}

it("reads no file outside the folder of scripts that is no package by its name", async () => {
  const { folder } = await laidOut(
    (top) => ({
      relative: importing("../../../other/node_modules/creds.json"),
      "relative-text": script('import m from "../../../other/node_modules/creds.txt";'),
      "relative-package": importing("../../../node_modules/good/secret-of-its-own.json"),
      "relative-hidden": importing("../../../node_modules/.secrets.json"),
      "relative-code": importing("../../../other/node_modules/pkg/index.js"),
      absolute: importing(`${top}/other/node_modules/creds.json`),
      "absolute-package": importing(`${top}/node_modules/good/secret-of-its-own.json`),
      "absolute-dots": importing(`${top}/scripts/../other/node_modules/creds.json`),
      required: script("", 'require("../../../other/node_modules/creds.json")'),
      awaited: script("", 'await import("../../../other/node_modules/creds.json")'),
      attributes: script('import m from "../../../other/node_modules/creds.json" with { type: "json" };'),
      text: script('import m from "../../../other/node_modules/creds.txt" with { type: "text" };'),
      bytes: script('import m from "../../../other/node_modules/creds.txt" with { type: "bytes" };'),
      "file-url": importing(`file://${top}/other/node_modules/creds.json`),
      "file-url-case": importing(`FILE://${top}/other/node_modules/creds.json`),
      "data-url-case": script('import m from "DATA:text/javascript,export default 1";'),
      pattern: script('const one = () => ["outside"][0];', "await import(`../../../${one()}.json`)"),
      "pattern-packages": script(
        'const one = () => ["creds"][0];',
        "await import(`../../../other/node_modules/${one()}.json`)",
      ),
      "pattern-required": script('const one = () => ["outside"][0];', "require(`../../../${one()}.json`)"),
      link: importing("./link.json"),
      "link-folder": importing("../../up/other/node_modules/creds.json"),
      "link-package": importing("leak/creds.json"),
      "link-nested": importing("leak2"),
      main: importing("evil"),
      "main-packages": importing("sly"),
      "main-inside": importing("out"),
      reaching: importing("reaching"),
      climbing: importing("climbing"),
      "bare-dots": importing("good/../../other/node_modules/creds.json"),
      "bare-dots-hidden": importing("good/../.cache/secret.json"),
      "bare-hidden": importing(".cache/secret.json"),
      exported: importing("mapped"),
      "exported-part": importing("mapped/x"),
      browsing: importing("browsing"),
      imports: importing("#leak"),
      "imports-dots": importing("#dots"),
      "self-named": importing("me/leak"),
      paths: importing("leaked"),
      "paths-wild": importing("wild/creds.json"),
      "paths-package": importing("fromroot"),
      base: importing("up/other/node_modules/creds.json"),
      "base-dots": importing("../other/node_modules/creds.json"),
      zod: script('import { leaked } from "zod";', "leaked"),
      query: importing("../../../other/node_modules/creds.json?x"),
      style: script('import m from "./style.css";'),
      map: `${script("", "new Error('where').stack")}\n//# sourceMappingURL=../../../outside.json\n`,
    }),
    (top) => {
      const at = (path: string) => join(top, "scripts", path);
      symlinkSync(join(top, "outside.json"), at("here/actions/link.json"));
      symlinkSync(join(top, "outside.ts"), at("here/actions/entry.ts"));
      symlinkSync(top, at("up"));
      symlinkSync(join(top, "other/node_modules"), at("node_modules/leak"));
      symlinkSync(join(top, "outside.js"), at("node_modules/leak2.js"));
      mkdirSync(at("node_modules/zod"));
      writeFileSync(at("node_modules/zod/package.json"), JSON.stringify({ name: "zod", module: "index.js" }));
      writeFileSync(
        at("node_modules/zod/index.js"),
        'import all from "../../../other/node_modules/creds.json"; export const leaked = all;',
      );
      writeFileSync(at("here/actions/style.css"), '@import "../../../outside.txt"; a { b: url(../../../outside.txt) }');
      writeFileSync(
        at("package.json"),
        JSON.stringify({
          name: "me",
          imports: { "#leak": "../outside.json", "#dots": "./x/../../other/node_modules/creds.json" },
          exports: { "./leak": "./../other/node_modules/creds.json" },
        }),
      );
      writeFileSync(
        at("tsconfig.json"),
        JSON.stringify({
          compilerOptions: {
            baseUrl: ".",
            paths: {
              leaked: ["../other/node_modules/creds.json"],
              "wild/*": ["../other/node_modules/*"],
              fromroot: ["../node_modules/.secrets.json"],
            },
          },
        }),
      );
    },
  );
  const outcomes = await outcomesOf(folder);
  expect(Object.keys(outcomes)).toHaveLength(47);
  const leaks = Object.entries(outcomes).filter(([, outcome]) => outcome.includes(canary));
  expect(leaks).toEqual([]);
  // Most are refused at load with a reason; these few load, and read nothing.
  const read = Object.entries(outcomes).filter(([, outcome]) => outcome.startsWith("200"));
  expect(read.map(([name]) => name).toSorted()).toEqual(["map"]);
});

it("uses packages of the folder, and of the folders above it, by their names", async () => {
  const { folder } = await laidOut(
    () => ({
      inside: importing("inside"),
      "inside-file": importing("../../node_modules/inside/index.js"),
      above: importing("good"),
      "above-part": importing("@scope/part/lib/deep.js"),
      asking: importing("asking"),
      private: importing("private"),
      pnpm: importing("linked"),
      zod: script('import * as z from "zod";', "z.string().parse('GOOD')"),
      helper: importing("../lib/helper.ts"),
      imports: importing("#helper"),
    }),
    (top) => {
      mkdirSync(join(top, "scripts/here/lib"));
      writeFileSync(join(top, "scripts/here/lib/helper.ts"), "export const good: string = 'GOOD';");
      writeFileSync(
        join(top, "scripts/package.json"),
        JSON.stringify({ imports: { "#helper": "./here/lib/helper.ts" } }),
      );
    },
  );
  const outcomes = await outcomesOf(folder);
  expect(Object.entries(outcomes).filter(([, outcome]) => !outcome.includes("GOOD"))).toEqual([]);
});
