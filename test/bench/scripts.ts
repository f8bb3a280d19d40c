import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Script, type ScriptJob, usualScriptLimits } from "../../src/core/scripts/script.ts";
import { createScriptHost } from "../../src/scripts/host.ts";
import { quantile, withFolder } from "./sidecar-process.ts";

/**
 * The cost of a run before its script does anything: started from the snapshot of a machine that has read the file,
 * started by a machine that has to read it, and after a change of the file. Also the round trips of tools.
 */
export async function scripts(asked: number): Promise<void> {
  const rounds = asked || 200;
  await withFolder(async (folder) => {
    const actions = join(folder, "calendar/actions");
    await mkdir(actions, { recursive: true });
    const file = (name: string, text: string) => writeFile(join(actions, `${name}.ts`), text);
    await file("small", source("return 1;", ""));
    await file("zod", source("return 1;", 'import { z } from "zod";\nconst schema = z.object({ id: z.string() });'));
    await file("trips", source("for (let i = 0; i < input; i++) await nango.getMetadata();", ""));
    await file("crowd", source("await Promise.all(Array.from({ length: input }, () => nango.getMetadata()));", ""));
    await file(
      "waits",
      source("await nango.getMetadata();", 'import { z } from "zod";\nexport const schema = z.string();'),
    );

    // Nothing in the host keeps the process alive while it waits for a change.
    const alive = setInterval(() => undefined, 1_000);
    const began = performance.now();
    const host = await createScriptHost({
      folder,
      world: { log: quiet, now: Date.now },
      limits: { runsAtOnce: 1_000 },
    });
    say(`five files taken up: ${(performance.now() - began).toFixed(0)} ms`);
    const find = (name: string): Script => {
      const script = host.find({ integration: "calendar", kind: "action", name });
      if (script === undefined) throw new Error(JSON.stringify(host.broken()));
      return script;
    };
    const run = async (script: Script, more: Partial<ScriptJob> = {}): Promise<number> => {
      const at = performance.now();
      const outcome = await host.run(script, { ...job, ...more });
      if (outcome.kind === "failed") throw new Error(outcome.failure.message);
      return performance.now() - at;
    };

    for (const name of ["small", "zod"]) {
      const script = find(name);
      await run(script);
      report(`a run from a picture (${name})`, await times(rounds, () => run(script)));
    }
    // Different from the current content, or it would not be a change.
    let n = 1;
    for (const name of ["small", "zod"]) {
      const changes = await times(Math.ceil(rounds / 10), async () => {
        n += 1;
        const text = source(
          `return ${n};`,
          name === "zod" ? 'import { z } from "zod";\nconst schema = z.string();' : "",
        );
        const heard = new Promise<void>((resolve) => {
          const off = host.onChange(() => {
            off();
            resolve();
          });
        });
        const at = performance.now();
        await file(name, text);
        await heard;
        await run(find(name));
        return performance.now() - at;
      });
      report(`a change of the file to the end of its first run, 50 ms of them waited (${name})`, changes);
    }
    // The host keeps sixteen snapshots: with more files each run reads its file first.
    for (let i = 0; i < 20; i += 1) {
      await file(
        `many${i}`,
        source(`return ${i};`, 'import { z } from "zod";\nconst schema = z.object({ id: z.string() });'),
      );
    }
    while (host.all().length < 25) await new Promise((resolve) => setTimeout(resolve, 50));
    let i = 0;
    report(
      "a run without a picture (zod)",
      await times(Math.ceil(rounds / 4), () => {
        i += 1;
        return run(find(`many${i % 20}`));
      }),
    );

    const trips = 5_000;
    for (const name of ["trips", "crowd"]) {
      const all = await times(5, () => run(find(name), { input: trips }));
      const median = quantile(all, 0.5);
      say(
        `${name === "trips" ? "one tool after another" : "32 tools at once"}: ${Math.round((trips / median) * 1_000)} a second`,
      );
    }

    const before = process.memoryUsage.rss();
    const releases: (() => void)[] = [];
    const tools = {
      call: () => new Promise<string>((resolve) => releases.push(() => resolve("x"))),
      log: () => undefined,
    };
    const open = Array.from({ length: 50 }, () => run(find("waits"), { tools }));
    while (releases.length < open.length) await new Promise((resolve) => setTimeout(resolve, 10));
    say(`a run that waits (zod): ${((process.memoryUsage.rss() - before) / open.length / 2 ** 20).toFixed(1)} MiB`);
    for (const release of releases) release();
    await Promise.all(open);
    await host.close();
    clearInterval(alive);
  });
}

const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

const source = (body: string, imports: string) => `import { createAction } from "latchkey/scripts";
${imports}
export default createAction({ description: "", ${imports.includes("const schema") ? "metadata: schema as never," : ""}
  exec: async (nango, input: any) => { ${body} } });
`;

const job: ScriptJob = {
  entry: "exec",
  row: "due",
  input: undefined,
  facts: {
    environment: "dev",
    integration: "calendar",
    connectionId: "ada",
    provider: "google-calendar",
    variant: "base",
    lastSyncDate: undefined,
    runId: "run-1",
  },
  tools: { call: async () => ({}), log: () => undefined },
  limits: usualScriptLimits,
  signal: new AbortController().signal,
};

async function times(count: number, one: () => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let i = 0; i < count; i += 1) all.push(await one());
  return all.sort((a, b) => a - b);
}

const report = (what: string, all: readonly number[]) =>
  say(`${what}: ${quantile(all, 0.5).toFixed(1)} ms, p99 ${quantile(all, 0.99).toFixed(1)} ms`);

const say = (line: string) => process.stdout.write(`${line}\n`);
