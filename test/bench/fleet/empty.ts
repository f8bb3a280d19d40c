import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { type Emptying, Emptying_State, EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { findPostgres, startPostgres } from "../../support/postgres/postgres.ts";
import { importAll, integration } from "../connections.ts";
import { latencyOf, openLoopApart } from "../open-loop.ts";
import { startProvider } from "../provider-process.ts";
import { deployedMemory, deployedOptions, ms, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

const adminKey = "lk_bench-admin-key-of-the-control-plane";
const beside = "sandbox-api-key";
const perSecond = 200;
const longestSeconds = 120;

interface EmptyOptions {
  readonly count: number;
  readonly only: readonly string[];
  readonly rounds: number;
  /** Another built program, measured in turns. */
  readonly beside?: string | undefined;
}

/** Empties an environment of 100,000 connections, beside proxied calls of another environment. */
export async function empty(options: EmptyOptions): Promise<void> {
  const { only, rounds, beside: other } = options;
  const wants = (part: string) => only.length === 0 || only.includes(part);
  const count = options.count || 100_000;
  for (const part of ["level", "postgres"] as const) {
    if (!wants(part)) continue;
    const ratios: number[] = [];
    for (let round = 0; round < (rounds || 1); round += 1) {
      const measure = (dist?: string) =>
        part === "level" ? emptyIn("LevelDB", count, {}, { dist }) : onServer(count, dist);
      const before = other === undefined ? undefined : await measure(other);
      const now = await measure();
      if (before !== undefined && now !== undefined) ratios.push(now / before);
    }
    if (ratios.length === 0) continue;
    const sorted = ratios.toSorted((a, b) => a - b).map((ratio) => ratio.toFixed(2));
    say(`${part}: rate to that of ${other}: median ${sorted[Math.floor(sorted.length / 2)]} (${sorted.join(", ")})`);
  }
}

/** Returns undefined without a server. */
async function onServer(count: number, dist: string | undefined): Promise<number | undefined> {
  if (findPostgres() === undefined) {
    say("no PostgreSQL server on this machine: nothing measured of it");
    return undefined;
  }
  const server = await startPostgres();
  try {
    const store = { LATCHKEY_STORE: server.storeUrl("bench") };
    return await emptyIn("PostgreSQL", count, store, { dist, dataFolder: server.dataFolder });
  } finally {
    await server.stop();
  }
}

/** Returns how many connections were deleted a second. */
async function emptyIn(
  name: string,
  count: number,
  store: Readonly<Record<string, string>>,
  { dist, dataFolder }: { readonly dist: string | undefined; readonly dataFolder?: string },
): Promise<number> {
  let rate = 0;
  await withFolder(async (folder) => {
    const provider = await startProvider();
    const file = join(folder, "latchkey.yaml");
    const providers = describeProviders(provider.origin).filter(({ name: one }) => one === beside);
    writeFileSync(file, JSON.stringify({ providers }));
    const running = await startBenchSidecar({
      folder,
      dist,
      env: {
        LATCHKEY_CONFIG: file,
        LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(provider.origin),
        LATCHKEY_ADMIN_KEY: adminKey,
        ...deployedMemory,
        NODE_OPTIONS: process.env["PROF"] ?? deployedOptions,
        ...store,
      },
    });
    const admin = createGrpcTransport({ baseUrl: running.control, interceptors: [withKey(adminKey)] });
    const environments = createClient(EnvironmentService, admin);
    await environments.createEnvironment({ name: "crowd" });
    const { secret } = await environments.createKey({ environment: "crowd" });
    const crowd = createGrpcTransport({ baseUrl: running.control, interceptors: [withKey(secret)] });
    await createClient(IntegrationService, admin).createIntegration({
      integration: { environment: "crowd", key: integration, provider: "example-api-key" },
    });
    await connectOne(running.data);
    const failed = await importAll(createClient(ConnectionService, crowd), { count, integration });
    if (failed > 0) throw new Error(`${failed} imports failed`);
    // The store first finishes the compaction that the import caused.
    await sleep(10_000);

    const over = new AbortController();
    const target = {
      port: Number(new URL(running.data).port),
      path: "/proxy/api/me",
      fields: [
        ["Authorization", `Bearer ${secretKey}`],
        ["Provider-Config-Key", beside],
      ] as const,
      ids: ["other"],
    };
    const loop = openLoopApart(target, { perSecond, seconds: longestSeconds, signal: over.signal });
    await sleep(3_000);
    const [ours, main, theirs] = [cpuOf(running.pid), cpuOfMain(running.pid), cpuOfServer(dataFolder)];
    const [from, since] = [Date.now(), performance.now()];
    let { emptying } = await environments.emptyEnvironment({ name: "crowd" });
    while (emptying?.state === Emptying_State.RUNNING) {
      await sleep(50);
      ({ emptying } = await environments.getEmptying({ name: "crowd" }));
    }
    const seconds = (performance.now() - since) / 1_000;
    const until = Date.now();
    const [oursCpu, theirsCpu] = [cpuOf(running.pid) - ours, cpuOfServer(dataFolder) - theirs];
    const mainCpu = cpuOfMain(running.pid) - main;
    over.abort();
    const { calls, failed: failedCalls } = await loop;
    const [during, before] = [
      calls.filter(({ sentAtMs }) => sentAtMs >= from && sentAtMs < until),
      calls.filter(({ sentAtMs }) => sentAtMs < from),
    ];
    const deleted = Number((emptying as Emptying | undefined)?.connections ?? 0n);
    rate = deleted / seconds;
    const each = (cpu: number) => `${((cpu * 1e6) / deleted).toFixed(0)} µs`;
    say(
      `${name}${dist === undefined ? "" : ` (${dist})`}: ${deleted} connections deleted in ${seconds.toFixed(1)} s, ${Math.round(deleted / seconds)}/s; CPU for each: sidecar ${each(oursCpu)}, of it the main thread ${each(mainCpu)}${dataFolder === undefined ? "" : `, server ${each(theirsCpu)}`}; ${perSecond} proxied calls/s beside it p50 ${ms(latencyOf(during, 0.5))}, p99 ${ms(latencyOf(during, 0.99))} (before: ${ms(latencyOf(before, 0.5))}, ${ms(latencyOf(before, 0.99))}), ${failedCalls} failed; memory ${running.ownMiB()} MiB; load average ${loadavg()[0]?.toFixed(1)}`,
    );
    await running.stop();
    await provider.stop();
  });
  return rate;
}

async function connectOne(data: string): Promise<void> {
  const post = async (path: string, body: object) => {
    const response = await fetch(`${data}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
  };
  await post("/integrations", { unique_key: beside, provider: beside });
  const credentials = { type: "API_KEY", apiKey: "sandbox-api-key" };
  await post("/connections", { provider_config_key: beside, connection_id: "other", credentials });
}

const withKey =
  (key: string): Interceptor =>
  (next) =>
  (request) => {
    request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };

const ticksPerSecond = 100;

/** CPU seconds of a process with all its threads. */
export const cpuOf = (pid: number): number => cpuIn(`/proc/${pid}/stat`);

const cpuOfMain = (pid: number): number => cpuIn(`/proc/${pid}/task/${pid}/stat`);

function cpuIn(file: string): number {
  const [, rest = ""] = readFileSync(file, "utf8").split(") ");
  const fields = rest.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** CPU seconds of all processes of a PostgreSQL server that live now. */
export function cpuOfServer(dataFolder: string | undefined): number {
  if (dataFolder === undefined) return 0;
  const [pid = ""] = readFileSync(join(dataFolder, "postmaster.pid"), "utf8").split("\n");
  let sum = cpuOf(Number(pid));
  for (const one of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const [, rest = ""] = readFileSync(`/proc/${one}/stat`, "utf8").split(") ");
      if (rest.split(" ")[1] === pid) sum += cpuOf(Number(one));
    } catch {
      // It has ended.
    }
  }
  return sum;
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
