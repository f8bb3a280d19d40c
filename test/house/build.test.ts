import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DescMethodStreaming, DescMethodUnary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { build as bundle } from "esbuild";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { build, external } from "../../bin/build.ts";
import { root } from "../../bin/steps.ts";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { methods } from "../cases/control-plane/services.ts";
import { adminKey, testVariables } from "../support/sidecar/harness.ts";

let folder: string;
let dist: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "latchkey-build-"));
  dist = join(folder, "dist");
  await build(dist);
  // The packages that `npm install` would put there.
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it("builds a package that runs without the checkout", async () => {
  const main = join(dist, "latchkey.js");
  const schemaOf = (what: string) =>
    JSON.parse(execFileSync(process.execPath, [main, what, "schema"], { encoding: "utf8" }));
  expect(schemaOf("config")).toHaveProperty("properties.environments");
  expect(schemaOf("providers")).toHaveProperty("properties.oauth2");

  // Each process leaves compiled code for the next one.
  expect(await readdir(join(dist, "compiled"))).toHaveLength(1);
  const child = spawn(process.execPath, [main, "serve"], {
    env: { ...testVariables(join(folder, "data")), NODE_V8_COVERAGE: join(folder, "coverage") },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout.on("data", (chunk) => {
    said += chunk;
  });
  await expect.poll(() => said, { timeout: 40_000 }).toContain('"phase":"ready"');
  // `serve` is one file. What it loads on demand shares its modules.
  const [, data = ""] = /"door":"data","address":"([^"]+)"/.exec(said) ?? [];
  const page = await fetch(`${data}/docs/errors`);
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("unknown_provider")]);
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);

  // Descriptors are made at their first use: a start needs few of them, and none in the protocol's own words.
  const calls = await callsIn(join(folder, "coverage"));
  expect(calls("lazyFile")).toBeGreaterThan(20);
  expect([calls("embeddedProto"), calls("boot"), calls("createEmbeddedFileRegistry")]).toEqual([0, 0, 0]);
  expect(calls("messageParts")).toBeLessThan(60);
});

it("builds a program that answers every method", async () => {
  const child = spawn(process.execPath, [join(dist, "latchkey.js"), "serve"], {
    env: { ...testVariables(join(folder, "answers")), LATCHKEY_UI: "on" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout.on("data", (chunk) => {
    said += chunk;
  });
  await expect.poll(() => said, { timeout: 40_000 }).toContain('"phase":"ready"');
  const [, baseUrl = ""] = /"door":"control","address":"([^"]+)"/.exec(said) ?? [];
  const transport = createGrpcTransport({ baseUrl });
  const header = { authorization: `Bearer ${adminKey}` };
  const answers = await Promise.all(
    methods.map(async (method): Promise<readonly [method: string, answer: string]> => {
      const name = `${method.parent.name}/${method.name}`;
      try {
        if (method.methodKind === "unary")
          await transport.unary(method as DescMethodUnary, undefined, 60_000, header, {});
        else {
          // A request whose environment does not exist ends each stream, except those of the whole process.
          const requests = createAsyncIterable([{ environment: "none" }]);
          const { message } = await transport.stream(method as DescMethodStreaming, undefined, 5_000, header, requests);
          for await (const _ of message) break;
        }
        return [name, "ok"];
      } catch (error) {
        return [name, Code[ConnectError.from(error).code]];
      }
    }),
  );
  const refusals = ["InvalidArgument", "NotFound", "FailedPrecondition", "Canceled", "DeadlineExceeded"];
  expect(answers.filter(([, answer]) => answer !== "ok" && !refusals.includes(answer))).toEqual([]);
  expect(answers.filter(([, answer]) => answer === "ok").length).toBeGreaterThan(20);

  const client = createClient(ConnectionService, transport);
  const items = createAsyncIterable([{ connection: { environment: "none", id: "ada" } }]);
  const outcomes: (string | undefined)[] = [];
  for await (const { result } of client.streamImportConnections(items, { headers: header }))
    outcomes.push(result?.problem?.code);
  expect(outcomes).toEqual(["invalid_body"]);
});

/** How often the process called the functions of its program, by V8's coverage. */
async function callsIn(coverage: string): Promise<(name: string) => number> {
  const counts = new Map<string, number>();
  for (const file of await readdir(coverage)) {
    const { result } = JSON.parse(await readFile(join(coverage, file), "utf8")) as ProcessCoverage;
    for (const { functionName, ranges } of result.find(({ url }) => url.endsWith("serve-joined.js"))?.functions ?? [])
      counts.set(functionName, (counts.get(functionName) ?? 0) + (ranges[0]?.count ?? 0));
  }
  return (name) => {
    const found = counts.get(name);
    if (found === undefined) throw new Error(`the program has no function ${name}`);
    return found;
  };
}

interface ProcessCoverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly count: number }[];
    }[];
  }[];
}

it("builds the script host, and what scripts import", async () => {
  await mkdir(join(folder, "scripts/calendar/actions"), { recursive: true });
  await writeFile(
    join(folder, "scripts/calendar/actions/it.ts"),
    `import { createAction } from "latchkey/scripts"; import { z } from "zod";
     export default createAction({ description: "", output: z.number(), exec: async (nango) => { await nango.log("here"); return 7; } });`,
  );
  // Beside the other files, as in dist.
  const options = { bundle: true, platform: "node", target: "node24", format: "esm", external } as const;
  const contents = `import { createScriptHost } from "./host.ts"; import { usualScriptLimits } from "../core/scripts/script.ts";
    const log = { debug() {}, info() {}, warn: console.error, error: console.error };
    const host = await createScriptHost({ folder: process.argv[2], world: { log, now: Date.now } });
    const [script] = host.all();
    const tools = { call: async () => null, log: ({ message }) => console.log(message) };
    const signal = new AbortController().signal;
    console.log(JSON.stringify(await host.run(script, { entry: "exec", facts: {}, tools, limits: usualScriptLimits, signal })));
    await host.close();`;
  await bundle({
    ...options,
    stdin: { contents, resolveDir: join(root, "src/scripts"), loader: "ts" },
    outfile: join(dist, "try.js"),
  });
  const said = execFileSync(process.execPath, [join(dist, "try.js"), join(folder, "scripts")], { encoding: "utf8" });
  expect(said.trim().split("\n")).toEqual(["here", '{"kind":"done","output":7}']);

  // The types and the module that customers import.
  const { createSync } = (await import(join(dist, "scripts.js"))) as { createSync(it: object): unknown };
  expect(createSync({ a: 1 })).toEqual({ a: 1, type: "sync" });
});
