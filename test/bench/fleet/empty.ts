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
import { deployedOptions, ms, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

const adminKey = "lk_bench-admin-key-of-the-control-plane";
const beside = "sandbox-api-key";
const perSecond = 200;
const longestSeconds = 120;

/** Empties an environment of 100,000 connections, beside proxied calls of another environment. */
export async function empty({
  count,
  only,
}: {
  readonly count: number;
  readonly only: readonly string[];
}): Promise<void> {
  const wants = (part: string) => only.length === 0 || only.includes(part);
  if (wants("level")) await emptyIn("LevelDB", count || 100_000, {});
  if (!wants("postgres")) return;
  if (findPostgres() === undefined) {
    say("no PostgreSQL server on this machine: nothing measured of it");
    return;
  }
  const server = await startPostgres();
  try {
    await emptyIn("PostgreSQL", count || 100_000, { LATCHKEY_STORE: server.storeUrl("bench") }, server.dataFolder);
  } finally {
    await server.stop();
  }
}

async function emptyIn(
  name: string,
  count: number,
  store: Readonly<Record<string, string>>,
  dataFolder?: string,
): Promise<void> {
  await withFolder(async (folder) => {
    const provider = await startProvider();
    const file = join(folder, "latchkey.yaml");
    const providers = describeProviders(provider.origin).filter(({ name: one }) => one === beside);
    writeFileSync(file, JSON.stringify({ providers }));
    const running = await startBenchSidecar({
      folder,
      env: {
        LATCHKEY_CONFIG: file,
        LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(provider.origin),
        LATCHKEY_ADMIN_KEY: adminKey,
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
    const [ours, theirs] = [cpuOf(running.pid), cpuOfServer(dataFolder)];
    const [from, since] = [Date.now(), performance.now()];
    let { emptying } = await environments.emptyEnvironment({ name: "crowd" });
    while (emptying?.state === Emptying_State.RUNNING) {
      await sleep(50);
      ({ emptying } = await environments.getEmptying({ name: "crowd" }));
    }
    const seconds = (performance.now() - since) / 1_000;
    const until = Date.now();
    const [oursCpu, theirsCpu] = [cpuOf(running.pid) - ours, cpuOfServer(dataFolder) - theirs];
    over.abort();
    const { calls, failed: failedCalls } = await loop;
    const [during, before] = [
      calls.filter(({ sentAtMs }) => sentAtMs >= from && sentAtMs < until),
      calls.filter(({ sentAtMs }) => sentAtMs < from),
    ];
    const deleted = Number((emptying as Emptying | undefined)?.connections ?? 0n);
    const each = (cpu: number) => `${((cpu * 1e6) / deleted).toFixed(0)} µs`;
    say(
      `${name}: ${deleted} connections deleted in ${seconds.toFixed(1)} s, ${Math.round(deleted / seconds)}/s; CPU for each: sidecar ${each(oursCpu)}${dataFolder === undefined ? "" : `, server ${each(theirsCpu)}`}; ${perSecond} proxied calls/s beside it p50 ${ms(latencyOf(during, 0.5))}, p99 ${ms(latencyOf(during, 0.99))} (before: ${ms(latencyOf(before, 0.5))}, ${ms(latencyOf(before, 0.99))}), ${failedCalls} failed; memory ${running.ownMiB()} MiB; load average ${loadavg()[0]?.toFixed(1)}`,
    );
    await running.stop();
    await provider.stop();
  });
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
export function cpuOf(pid: number): number {
  const [, rest = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
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
