import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import type { ScriptLocation } from "../../../src/core/scripts/script.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { action, type Hosted, hosted, hostedFrom, output } from "./hosting.ts";

const it1: ScriptLocation = { integration: "calendar", kind: "action", name: "it" };
const sync = (fields: string, imports = "") => `import { createSync } from "nango";
import * as z from "zod";
${imports}
export default createSync({
  description: "",
  models: { Item: z.object({ id: z.string() }) },
${fields}
  exec: async () => {},
});
`;

async function mistakesOf(file: string, text: string, others: Readonly<Record<string, string>> = {}) {
  const at = await hosted({ ...others, [file]: text });
  expect(at.host.all().filter(({ name }) => file.endsWith(`/${name}.ts`))).toEqual([]);
  return at.host.broken().find((one) => one.file === file)?.mistakes;
}

/** Waits until the host has noticed, or the test times out. */
async function until(at: Pick<Hosted, "host">, is: () => boolean): Promise<void> {
  while (!is()) {
    await new Promise<void>((resolve) => {
      const off = at.host.onChange(() => {
        off();
        resolve();
      });
      setTimeout(resolve, 50);
    });
  }
}

it("shows a file's own description", async () => {
  const at = await hosted({
    "calendar/syncs/events.ts": `import { createSync } from "nango";
      import { z } from "zod";
      export default createSync({
        description: "Events", frequency: "every 5 minutes", syncType: "incremental", trackDeletes: true, autoStart: false,
        endpoints: [{ method: "GET", path: "/calendar/events" }],
        metadata: z.object({ calendar: z.string() }),
        models: { Event: z.object({ id: z.string(), at: z.date() }), Note: z.object({ id: z.string() }) },
        webhookSubscriptions: ["*"],
        exec: async () => {}, onWebhook: async () => {},
      });`,
    "calendar/actions/create.ts": `import { createAction } from "latchkey/scripts";
      import { z } from "zod";
      export default createAction({
        description: "Create", endpoint: { method: "POST", path: "/calendar/create" },
        input: z.object({ title: z.string().default("none") }), output: z.void(), exec: async () => {},
      });`,
    "calendar/on-events/made.ts": `import { createOnEvent } from "nango";
      export default createOnEvent({ description: "", event: "post-connection-creation", exec: async () => {} });`,
    "calendar/events/made2.ts": `import { createOnEvent } from "nango";
      export default createOnEvent({ description: "", event: "validate-connection", exec: async () => {} });`,
    "calendar/syncs/not-a-script.txt": "",
    "calendar/mappers/to-event.ts": "export const toEvent = 1;",
  });
  expect(at.host.broken()).toEqual([]);
  expect(at.host.all()).toHaveLength(4);
  expect(at.host.find({ integration: "calendar", kind: "sync", name: "events" })).toMatchObject({
    description: "Events",
    version: expect.stringMatching(/^[\da-f]{16}$/),
    frequency: "every 5 minutes",
    syncType: "incremental",
    trackDeletes: true,
    autoStart: false,
    endpoints: [{ method: "GET", path: "/calendar/events" }],
    metadata: { type: "object", properties: { calendar: { type: "string" } } },
    models: { Event: { properties: { id: { type: "string" }, at: {} } }, Note: { type: "object" } },
    webhookSubscriptions: ["*"],
    hasOnWebhook: true,
  });
  expect(at.host.find({ integration: "calendar", kind: "action", name: "create" })).toMatchObject({
    endpoints: [{ method: "POST", path: "/calendar/create" }],
    input: { type: "object", properties: { title: { type: "string", default: "none" } } },
    output: undefined,
  });
  expect(at.host.find({ integration: "calendar", kind: "event", name: "made" })).toMatchObject({
    event: "post-connection-creation",
  });
  expect(at.host.find({ integration: "calendar", kind: "event", name: "made2" })).toBeDefined();
});

it.each([
  ["what is no TypeScript", "calendar/actions/it.ts", action("return (;"), /Unexpected ";"/, 7, 9],
  [
    "a file that is not there",
    "calendar/actions/it.ts",
    action("", 'import "../missing.js";'),
    /Could not resolve "..\/missing.js"/,
    2,
    8,
  ],
  [
    "a package that is not there",
    "calendar/actions/it.ts",
    action("", 'import "lodash";'),
    /Could not resolve "lodash"/,
    2,
    8,
  ],
  [
    "files of the machine",
    "calendar/actions/it.ts",
    action("", 'import fs from "fs";\nconsole.log(fs);'),
    /"fs" cannot be imported: scripts have no access to files, network or process/,
    2,
    16,
  ],
  [
    "the same by its other name",
    "calendar/actions/it.ts",
    action("", 'import "node:child_process";'),
    /"node:child_process" cannot/,
    2,
    8,
  ],
  ["require of them", "calendar/actions/it.ts", action("return require('http');"), /"http" cannot/, 7, 16],
  ["import of them", "calendar/actions/it.ts", action("return await import('net');"), /"net" cannot/, 7, 21],
  [
    "the inside of another tool",
    "calendar/actions/it.ts",
    action("", 'import "nango/lib/x.js";'),
    /cannot be imported in a script/,
    2,
    8,
  ],
  [
    "a file outside",
    "calendar/actions/it.ts",
    action("", 'import x from "/etc/latchkey.json";\nconsole.log(x);'),
    /resolve|outside/,
    2,
    15,
  ],
  [
    "no default export",
    "calendar/actions/it.ts",
    "export const a = 1;",
    /the file has no default export/,
    undefined,
    undefined,
  ],
  [
    "another thing",
    "calendar/actions/it.ts",
    "const a = 1;\nexport default { a };",
    /must be created by createAction/,
    2,
    1,
  ],
  [
    "a sync among the actions",
    "calendar/actions/it.ts",
    sync('frequency: "1d",'),
    /created by createSync, but files in this folder must use createAction/,
    4,
    16,
  ],
  [
    "a throw while it is read",
    "calendar/actions/it.ts",
    action("", 'function f() {\n  throw new TypeError("at once");\n}\nf();'),
    /at once/,
    3,
    9,
  ],
  [
    "X08 a frequency too often",
    "calendar/syncs/it.ts",
    sync('  frequency: "every 1s",'),
    /"every 1s" must be at least 30 seconds/,
    7,
    3,
  ],
  [
    "X08 a frequency of nothing",
    "calendar/syncs/it.ts",
    sync('  frequency: "0d",'),
    /"0d" must be at least 30 seconds/,
    7,
    3,
  ],
  [
    "X08 a frequency that is none",
    "calendar/syncs/it.ts",
    sync('  frequency: "banana",'),
    /"banana" must be a frequency/,
    7,
    3,
  ],
  ["no frequency", "calendar/syncs/it.ts", sync(""), /frequency must be set/, undefined, undefined],
  [
    "notifications that nobody hears",
    "calendar/syncs/it.ts",
    sync('  frequency: "1d",\n  webhookSubscriptions: ["*"],'),
    /webhookSubscriptions needs onWebhook/,
    8,
    3,
  ],
  [
    "an endpoint without a slash",
    "calendar/syncs/it.ts",
    sync('  frequency: "1d",\n  endpoints: [{ method: "GET", path: "x" }],'),
    /must begin with a slash/,
    8,
    3,
  ],
  [
    "an event that there is not",
    "calendar/events/it.ts",
    'import { createOnEvent } from "nango";\nexport default createOnEvent({\n  event: "birthday" as never, description: "",\n  exec: async () => {} });',
    /event must be one of/,
    3,
    3,
  ],
])("refuses %s, with its place", async (_, file, text, message, line, column) => {
  expect(await mistakesOf(file, text)).toEqual([{ message: expect.stringMatching(message), file, line, column }]);
});

it("refuses a file that is never done being read", async () => {
  const [mistake] = (await mistakesOf("calendar/actions/it.ts", action("", "for (;;) {}"))) ?? [];
  expect(mistake?.message).toMatch(/more than 5000 ms|interrupted/);
});

it("names the file in which the mistake is, where it is another's", async () => {
  const mistakes = await mistakesOf(
    "calendar/actions/it.ts",
    action("return shared;", 'import { shared } from "../shared.js";'),
    { "calendar/shared.ts": 'export const shared = 1;\nthrow new Error("shared");' },
  );
  expect(mistakes).toEqual([
    { message: expect.stringContaining("shared"), file: "calendar/shared.ts", line: 2, column: 7 },
  ]);
});

it("refuses an endpoint that another has, and one of latchkey's own", async () => {
  const of = (path: string) => sync(`  frequency: "1d",\n  endpoints: [{ method: "GET", path: "${path}" }],`);
  const at = await hosted(
    { "calendar/syncs/a.ts": of("/x"), "calendar/syncs/b.ts": of("/x"), "calendar/syncs/c.ts": of("/connections") },
    { isOwnPath: ({ path }) => path === "/connections" },
  );
  expect(at.host.all().map(({ name }) => name)).toEqual(["a"]);
  expect(at.host.broken().map(({ file, mistakes }) => [file, mistakes[0]?.message, mistakes[0]?.line])).toEqual([
    ["calendar/syncs/b.ts", "the endpoint GET /x is already used by calendar/syncs/a.ts", 8],
    ["calendar/syncs/c.ts", "the endpoint GET /connections is reserved by Latchkey", 8],
  ]);
});

it("applies a change without a restart, and lets running scripts finish", async () => {
  const at = await hosted({ "calendar/actions/it.ts": action("await nango.get({ endpoint: '/' }); return 1;") });
  const before = at.host.find(it1);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const running = at.run("it", { tool: () => held.then(() => ({ status: 200, headers: {}, data: 1 })) });
  await at.write("calendar/actions/it.ts", action("return 2;"));
  await until(at, () => at.host.find(it1)?.version !== before?.version);
  expect(output(await at.run("it"))).toBe(2);
  release();
  expect(output(await running)).toBe(1);
});

it("applies a change of an imported file", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action("return shared;", 'import { shared } from "../shared.js";'),
    "calendar/shared.ts": "export const shared = 1;",
  });
  expect(output(await at.run("it"))).toBe(1);
  const before = at.host.find(it1)?.version;
  await at.write("calendar/shared.ts", "export const shared = 2;");
  await until(at, () => at.host.find(it1)?.version !== before);
  expect(output(await at.run("it"))).toBe(2);
});

it("keeps the last valid version while a file is broken, and clears the error after a correction", async () => {
  const at = await hosted({ "calendar/actions/it.ts": action("return 1;") });
  await at.write("calendar/actions/it.ts", action("return (;"));
  await until(at, () => at.host.broken().length === 1);
  expect(output(await at.run("it"))).toBe(1);
  expect(at.logged.join("\n")).toMatch(/a script was not loaded.*"line":7/);
  await at.write("calendar/actions/it.ts", action("return 3;"));
  await until(at, () => at.host.broken().length === 0);
  expect(output(await at.run("it"))).toBe(3);
});

it("loads a file once its missing import exists", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action("return shared;", 'import { shared } from "../shared.js";'),
  });
  expect(at.host.broken()).toHaveLength(1);
  await at.write("calendar/shared.ts", "export const shared = 7;");
  await until(at, () => at.host.find(it1) !== undefined);
  expect(output(await at.run("it"))).toBe(7);
});

it("drops a removed file, and loads a new one", async () => {
  const at = await hosted({ "calendar/actions/it.ts": action("return 1;") });
  await at.write("calendar/actions/other.ts", action("return 2;"));
  await until(at, () => at.host.all().length === 2);
  await rm(join(at.folder, "calendar/actions/it.ts"));
  await until(at, () => at.host.all().length === 1);
  expect(at.host.find(it1)).toBeUndefined();
});

it("reports a change once, and no scan without changes", async () => {
  const at = await hosted({ "calendar/actions/it.ts": action("return 1;") });
  let told = 0;
  const off = at.host.onChange(() => {
    told += 1;
  });
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(told).toBe(0);
  await at.write("calendar/actions/it.ts", action("return 2;"));
  await until(at, () => told > 0);
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(told).toBe(1);
  off();
});

it("follows the swap of links by which Kubernetes changes a volume", async () => {
  const folder = await temporaryFolder();
  const version = async (name: string, text: string) => {
    await mkdir(join(folder, name, "calendar/actions"), { recursive: true });
    await writeFile(join(folder, name, "calendar/actions/it.ts"), text);
  };
  await version("..2026_1", action("return 1;"));
  await symlink("..2026_1", join(folder, "..data"));
  await symlink("..data/calendar", join(folder, "calendar"));
  const at = await hostedFrom(folder);
  expect(output(await at.run("it"))).toBe(1);
  await version("..2026_2", action("return 2;"));
  await symlink("..2026_2", join(folder, "..data_tmp"));
  const before = at.host.find(it1)?.version;
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
  await rm(join(folder, "..2026_1"), { recursive: true });
  await until(at, () => at.host.find(it1)?.version !== before);
  expect(output(await at.run("it"))).toBe(2);
});

it("keeps running while the folder is missing, and starts without one", async () => {
  const parent = await temporaryFolder();
  const folder = join(parent, "scripts");
  const at = await hostedFrom(folder);
  expect(at.host.all()).toEqual([]);
  await mkdir(join(folder, "calendar/actions"), { recursive: true });
  await writeFile(join(folder, "calendar/actions/it.ts"), action("return 1;"));
  await until(at, () => at.host.find(it1) !== undefined);
  await rename(folder, join(parent, "away"));
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(output(await at.run("it"))).toBe(1);
});

it("prefers the customer's own zod", async () => {
  const folder = await mkdtemp(join(fileURLToPath(new URL(".", import.meta.url)), "own-zod-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "node_modules/zod"), { recursive: true });
  await writeFile(join(folder, "node_modules/zod/package.json"), '{"name":"zod","version":"0.0.1","main":"index.js"}');
  await writeFile(join(folder, "node_modules/zod/index.js"), 'module.exports = { mine: "mine" };');
  await mkdir(join(folder, "calendar/actions"), { recursive: true });
  await writeFile(join(folder, "calendar/actions/it.ts"), action("return mine;", 'import { mine } from "zod";'));
  const at = await hostedFrom(folder);
  expect(output(await at.run("it"))).toBe("mine");
});

it("bundles the fixtures, which are as customers write them", async () => {
  const fixtures = fileURLToPath(new URL("fixtures", import.meta.url));
  const at = await hostedFrom(fixtures);
  expect(at.host.broken()).toEqual([]);
  expect(
    at.host
      .all()
      .map(({ kind, name }) => `${kind} ${name}`)
      .sort(),
  ).toEqual([
    "action create-event",
    "event begin-watching",
    "event stop-watching",
    "sync events",
    "sync watch-renewal",
  ]);
  expect(await readFile(join(fixtures, "calendar/syncs/events.ts"), "utf8")).toContain('from "nango"');
});
