import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import { startSandbox } from "../../src/dev/sandbox/sandbox.ts";
import { type Run, Run_State, SyncService } from "../../src/gen/latchkey/v1/sync_pb.ts";
import { cpuSeconds, loadAverage, mainThreadSeconds } from "./proxy-process.ts";
import { type BenchSidecar, ms, quantile, secretKey, startBenchSidecar, withFolder } from "./sidecar-process.ts";

const integration = "sandbox-files";
const usualCount = 1_000;

const script = `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "The first page of files.",
  frequency: "1d",
  autoStart: false,
  models: { File: z.object({ id: z.string() }) },
  exec: async (nango) => {
    const { data } = await nango.get({ endpoint: "/drive/v3/files", params: { pageSize: 10 } });
    await nango.batchSave(data.files, "File");
  },
});`;

/** A thousand syncs that are due at once, each with a request to its provider and records to save; and the proxy beside them. */
export async function syncs(asked: number): Promise<void> {
  const count = asked || usualCount;
  const sandbox = await startSandbox({});
  await withFolder(async (folder) => {
    const scripts = `${folder}/scripts`;
    mkdirSync(`${scripts}/${integration}/syncs`, { recursive: true });
    writeFileSync(`${scripts}/${integration}/syncs/files.ts`, script);
    mkdirSync(`${folder}/store`);
    writeFileSync(`${folder}/latchkey.yaml`, JSON.stringify({ providers: describeProviders(sandbox.origin) }));
    const sidecar = await startBenchSidecar({
      folder: `${folder}/store`,
      env: {
        LATCHKEY_SCRIPTS: scripts,
        LATCHKEY_CONFIG: `${folder}/latchkey.yaml`,
        LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
      },
    });
    try {
      await setUp(sidecar, count, () => sandbox.grant({ user: "ada@example.com" }).access_token);
      const spent = () => ({ all: cpuSeconds(sidecar.pid), main: mainThreadSeconds(sidecar.pid) });
      await probe(sidecar, AbortSignal.timeout(2_000));
      const before = spent();
      const alone = await probe(sidecar, AbortSignal.timeout(5_000));
      const began = spent();
      const over = new AbortController();
      const probing = probe(sidecar, over.signal);
      const since = performance.now();
      await call(sidecar, "POST", "/sync/trigger", { provider_config_key: integration, syncs: [] });
      await ended(sidecar, count);
      const tookMs = performance.now() - since;
      over.abort();
      const beside = await probing;
      const now = spent();
      /** CPU time of the proxy's requests, derived from what they take alone. */
      const proxied = (thread: "all" | "main") => ((began[thread] - before[thread]) / alone.length) * beside.length;
      const cpu = {
        all: now.all - began.all - proxied("all"),
        main: now.main - began.main - proxied("main"),
      };
      const outside = await besideOthers(sidecar, {
        url: `${sandbox.origin}/drive/v3/files?pageSize=10`,
        token: sandbox.grant({ user: "ada@example.com" }).access_token,
        requestsPerSecond: (count / tookMs) * 1_000,
        cpu: cpu.all / (tookMs / 1_000),
      });
      tell({ count, tookMs, runs: await listed(sidecar), cpu, alone, beside, outside });
    } finally {
      await sidecar.stop();
      await sandbox.close();
    }
  });
}

async function call({ data }: BenchSidecar, method: string, path: string, body?: object, headers: object = {}) {
  const response = await fetch(`${data}${path}`, {
    method,
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
}

async function setUp(sidecar: BenchSidecar, count: number, token: () => string): Promise<void> {
  await call(sidecar, "POST", "/integrations", {
    unique_key: integration,
    provider: integration,
    credentials: { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" },
  });
  const access_token = token();
  for (let i = 0; i < count; i += 1) {
    await call(sidecar, "POST", "/connections", {
      provider_config_key: integration,
      connection_id: `c${i}`,
      credentials: { type: "OAUTH2", access_token },
    });
  }
}

/** Sends one request after another through the proxy, and times each. */
async function probe(sidecar: BenchSidecar, signal: AbortSignal): Promise<number[]> {
  const took: number[] = [];
  while (!signal.aborted) {
    const since = performance.now();
    await call(sidecar, "GET", "/proxy/drive/v3/files?pageSize=1", undefined, {
      "provider-config-key": integration,
      "connection-id": "c0",
    });
    took.push(performance.now() - since);
    await sleep(2);
  }
  return took;
}

/** Waits by the metric: listing the runs would add load to the sidecar. */
async function ended({ ops }: BenchSidecar, count: number): Promise<void> {
  for (;;) {
    const text = await (await fetch(`${ops}/metrics`)).text();
    const counted = [...text.matchAll(/^latchkey_runs_total\{kind="sync"[^}]*\} (\d+)/gm)];
    if (counted.reduce((sum, [, of]) => sum + Number(of), 0) >= count) return;
    await sleep(2_000);
  }
}

async function listed({ control }: BenchSidecar): Promise<readonly Run[]> {
  const client = createClient(SyncService, createGrpcTransport({ baseUrl: control, interceptors: [withKey] }));
  const states = [Run_State.SUCCEEDED, Run_State.FAILED];
  const runs: Run[] = [];
  let pageToken = "";
  do {
    const page = await client.listRuns({ environment: "dev", integration, states, pageSize: 1_000, pageToken });
    runs.push(...page.runs);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return runs;
}

const withKey: import("@connectrpc/connect").Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${secretKey}`);
  return next(request);
};

/** As much load on the machine and the provider as the syncs cause, but outside the sidecar. */
const standIn = `
  const [url, token, everyMs, busy] = process.argv.slice(1);
  const headers = { authorization: "Bearer " + token };
  setInterval(() => fetch(url, { headers }).then((answer) => answer.text()), Number(everyMs));
  setInterval(() => {
    for (const until = performance.now() + 10 * Number(busy); performance.now() < until; );
  }, 10);
`;

interface Outside {
  readonly url: string;
  readonly token: string;
  readonly requestsPerSecond: number;
  /** Seconds of CPU a second. */
  readonly cpu: number;
}

async function besideOthers(sidecar: BenchSidecar, { url, token, requestsPerSecond, cpu }: Outside): Promise<number[]> {
  const count = Math.max(1, Math.ceil(cpu));
  const others = Array.from({ length: count }, () =>
    spawn(process.execPath, [
      "-e",
      standIn,
      url,
      token,
      String((1_000 * count) / requestsPerSecond),
      String(cpu / count),
    ]),
  );
  try {
    await sleep(500);
    return await probe(sidecar, AbortSignal.timeout(10_000));
  } finally {
    for (const one of others) one.kill("SIGKILL");
  }
}

interface Told {
  readonly count: number;
  readonly tookMs: number;
  readonly runs: readonly Run[];
  readonly alone: readonly number[];
  readonly beside: readonly number[];
  /** Times beside other processes that keep the machine as busy. */
  readonly outside: readonly number[];
  /** CPU seconds of the runs: of all threads, and of the thread that serves the proxy. */
  readonly cpu: { readonly all: number; readonly main: number };
}

function tell({ count, tookMs, runs, cpu, alone, beside, outside }: Told): void {
  const failed = runs.filter(({ state }) => state === Run_State.FAILED).length;
  const took = runs.map(({ duration }) => Number(duration?.seconds ?? 0) * 1_000 + (duration?.nanos ?? 0) / 1e6);
  const waited = runs.map(({ startedAt, dueAt }) =>
    startedAt === undefined || dueAt === undefined ? 0 : timestampMs(startedAt) - timestampMs(dueAt),
  );
  const of = (values: readonly number[]) => {
    const sorted = values.toSorted((a, b) => a - b);
    return `p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}`;
  };
  process.stdout.write(
    `${count} syncs that were due at once: ${(tookMs / 1_000).toFixed(1)} s, ${Math.round((count / tookMs) * 1_000)} a second, ${failed} failed
  a run took ${of(took)}; it waited ${of(waited)}
  CPU of a run: ${ms((cpu.all / count) * 1_000)}, of it the proxy's thread ${ms((cpu.main / count) * 1_000)}
  the proxy alone: ${of(alone)}; beside them: ${of(beside)}
  beside other programs that keep the machine as busy: ${of(outside)}
  load average ${loadAverage()}
`,
  );
}
