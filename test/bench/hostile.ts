import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import { latencyOf, openLoopApart } from "./open-loop.ts";
import { startProvider } from "./provider-process.ts";
import { loadAverage } from "./proxy-process.ts";
import { createTable } from "./proxy-table.ts";
import { type BenchSidecar, deployed, secretKey, startBenchSidecar, withFolder } from "./sidecar-process.ts";

/** The integration of the scripts. The requests beside them use another provider, in its own process. */
const integration = "sandbox-unified";
const unrelated = "sandbox-api-key";
const seconds = 5;
const perSecond = 200;
/** Scripts of each kind at a time; each is started again as soon as it has ended. */
const atOnce = 4;
/** Threads outside latchkey that do the worst that scripts do: as many as scripts have, at their priority. */
const besideUs = "require('node:os').setPriority(0, 5); for (;;);";

/** Hostile scripts. Each is ended for what it does, and another one starts. */
const bodies: Readonly<Record<string, string>> = {
  "spins for ever": "for (;;);",
  "takes memory": "const all: unknown[] = []; for (;;) all.push(new Array(1_000).fill(all.length));",
  "promises without end": "const again = (): Promise<void> => Promise.resolve().then(again); await again();",
  "throws and catches": "for (;;) { try { throw new Error('x'.repeat(1_000)); } catch {} }",
  "calls tools without end":
    "for (;;) await Promise.all(Array.from({ length: 32 }, () => nango.getMetadata().catch(() => undefined)));",
  "logs without end": "for (;;) await nango.log('x'.repeat(8_000));",
  "gives back too much": "return 'x'.repeat(40_000_000);",
  "asks its provider without end":
    "for (;;) await Promise.all(Array.from({ length: 32 }, () => nango.get({ endpoint: '/drive/v3/files?pageSize=1' }).catch(() => undefined)));",
};

/** Ended by a limit, and not because latchkey failed. */
const isEnded = /without waiting for anything|out of memory|needed more than|more than \d+ calls|output is larger than/;

const nameOf = (kind: string) => kind.replaceAll(" ", "-");
const source = (body: string) => `
import { createAction } from "latchkey/scripts";
import * as z from "zod";
export default createAction({
  description: "Means no good.",
  input: z.unknown(),
  output: z.unknown(),
  exec: async (nango) => { ${body} },
});`;

/** Runs hostile scripts, one kind at a time, and measures requests through the proxy beside them. */
export async function hostile(askedRounds: number): Promise<void> {
  const rounds = askedRounds || 3;
  await withFolder(async (folder) => {
    const [provider, other] = await Promise.all([startProvider({ aside: true }), startProvider()]);
    const actions = join(folder, "scripts", integration, "actions");
    mkdirSync(actions, { recursive: true });
    for (const [kind, body] of Object.entries(bodies)) writeFileSync(join(actions, `${nameOf(kind)}.ts`), source(body));
    mkdirSync(join(folder, "store"));
    const file = join(folder, "latchkey.yaml");
    const providers = [
      ...describeProviders(provider.origin).filter(({ name }) => name === integration),
      ...describeProviders(other.origin).filter(({ name }) => name === unrelated),
    ];
    // A short limit, so that a kind ends soon after its measurement and leaves the thread to the next.
    writeFileSync(file, JSON.stringify({ providers, scripts: { busy: "1s", tool_calls: 20_000 } }));
    const sidecar = await startBenchSidecar({
      folder: join(folder, "store"),
      env: {
        ...deployed,
        LATCHKEY_CONFIG: file,
        LATCHKEY_SCRIPTS: join(folder, "scripts"),
        LATCHKEY_ALLOW_PRIVATE: [provider, other].map(({ origin }) => allowPrivateFor(origin)).join(),
      },
      isProbed: true,
    });
    try {
      await setUp(sidecar, (await provider.say(1)).tokens[0]?.access_token ?? "");
      const table = createTable(["p50, ms", "p99, ms", "thread busy, %", "without a core, %", "runs ended"]);
      const note = async (name: string, during: (signal: AbortSignal) => Promise<number>) => {
        const over = new AbortController();
        const running = during(over.signal);
        // The error is reported below; without this it could be unhandled while something else is awaited.
        running.catch(() => undefined);
        await sleep(500);
        await sidecar.look();
        const { calls, failed } = await openLoopApart(target(sidecar), { perSecond, seconds });
        const { wallMs, cpuMs, withoutCoreMs } = await sidecar.look();
        over.abort();
        const ended = await running;
        if (failed > 0) throw new Error(`${failed} calls failed beside one that ${name}`);
        table.note(name, [
          ...[latencyOf(calls, 0.5), latencyOf(calls, 0.99)],
          ...[(100 * cpuMs) / wallMs, (100 * withoutCoreMs) / wallMs, ended],
        ]);
      };
      for (let round = 0; round < rounds; round += 1) {
        await note("alone", async () => 0);
        await note("another program spins", spinOutside);
        for (const kind of Object.keys(bodies)) await note(kind, (signal) => keepRunning(sidecar, { kind, signal }));
      }
      process.stdout.write(
        `${perSecond} calls/s through the proxy, beside scripts of which ${atOnce} at once do only one thing; medians of ${rounds} rounds, load average ${loadAverage()}:\n\n`,
      );
      process.stdout.write(`${table.text({ peers: ["alone", "another program spins"], compared: "p99, ms" })}\n`);
    } finally {
      await sidecar.stop();
      await Promise.all([provider.stop(), other.stop()]);
    }
  });
}

const target = ({ data }: BenchSidecar) => ({
  port: Number(new URL(data).port),
  path: "/proxy/api/me",
  fields: [
    ["Authorization", `Bearer ${secretKey}`],
    ["Provider-Config-Key", unrelated],
  ] as const,
  ids: ["one"],
});

function ask({ data }: BenchSidecar, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const headers = {
    authorization: `Bearer ${secretKey}`,
    "content-type": "application/json",
    "provider-config-key": integration,
    "connection-id": "one",
  };
  return fetch(`${data}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

async function setUp(sidecar: BenchSidecar, access_token: string): Promise<void> {
  const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
  const apiKey = { type: "API_KEY", apiKey: "sandbox-api-key" };
  const token = { type: "OAUTH2", access_token };
  for (const [path, body] of [
    ["/integrations", { unique_key: integration, provider: integration, credentials: app }],
    ["/connections", { provider_config_key: integration, connection_id: "one", credentials: token }],
    ["/integrations", { unique_key: unrelated, provider: unrelated }],
    ["/connections", { provider_config_key: unrelated, connection_id: "one", credentials: apiKey }],
  ] as const) {
    const answer = await ask(sidecar, path, body);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }
}

/** Every run must fail: a script that finishes has not done what it was written for. */
async function keepRunning(
  sidecar: BenchSidecar,
  { kind, signal }: { readonly kind: string; readonly signal: AbortSignal },
): Promise<number> {
  let ended = 0;
  const one = async () => {
    const answer = await ask(sidecar, "/action/trigger", { action_name: nameOf(kind), input: {} }, signal);
    const text = await answer.text();
    if (answer.status !== 424 || !isEnded.test(text))
      throw new Error(`${kind}: ${answer.status} ${text.slice(0, 500)}`);
    ended += 1;
  };
  const again = async () => {
    while (!signal.aborted) await one();
  };
  // Throttled scripts that remain at the end are not awaited.
  const unlessOver = (error: unknown) => {
    if (!signal.aborted) throw error;
  };
  await Promise.all(Array.from({ length: atOnce }, () => again().catch(unlessOver)));
  return ended;
}

function spinOutside(signal: AbortSignal): Promise<number> {
  const child = spawn(process.execPath, ["-e", besideUs], { stdio: "ignore" });
  return new Promise((resolve) => {
    child.once("exit", () => resolve(0));
    signal.addEventListener("abort", () => child.kill("SIGKILL"));
  });
}
