import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Run, Run_State, SyncService } from "../../src/gen/latchkey/v1/sync_pb.ts";
import { allowPrivateFor, describeProviders } from "../../src/sandbox/providers.ts";
import { startSandbox } from "../../src/sandbox/sandbox.ts";
import { loadAverage } from "./proxy-process.ts";
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
      await furnish(sidecar, count, () => sandbox.grant({ user: "ada@example.com" }).access_token);
      const alone = await probe(sidecar, AbortSignal.timeout(5_000));
      const over = new AbortController();
      const beside = probe(sidecar, over.signal);
      const since = performance.now();
      await call(sidecar, "POST", "/sync/trigger", { provider_config_key: integration, syncs: [] });
      const runs = await ended(sidecar, count);
      const tookMs = performance.now() - since;
      over.abort();
      tell({ count, tookMs, runs, alone, beside: await beside });
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

async function furnish(sidecar: BenchSidecar, count: number, token: () => string): Promise<void> {
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

/** One request after another through the proxy, and how long each took. */
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

async function ended({ control }: BenchSidecar, count: number): Promise<readonly Run[]> {
  const client = createClient(SyncService, createGrpcTransport({ baseUrl: control, interceptors: [withKey] }));
  const states = [Run_State.SUCCEEDED, Run_State.FAILED];
  for (;;) {
    const runs: Run[] = [];
    let pageToken = "";
    do {
      const page = await client.listRuns({ environment: "dev", integration, states, pageSize: 1_000, pageToken });
      runs.push(...page.runs);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    if (runs.length >= count) return runs;
    await sleep(250);
  }
}

const withKey: import("@connectrpc/connect").Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${secretKey}`);
  return next(request);
};

interface Told {
  readonly count: number;
  readonly tookMs: number;
  readonly runs: readonly Run[];
  readonly alone: readonly number[];
  readonly beside: readonly number[];
}

function tell({ count, tookMs, runs, alone, beside }: Told): void {
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
  the proxy alone: ${of(alone)}; beside them: ${of(beside)}
  load average ${loadAverage()}
`,
  );
}
