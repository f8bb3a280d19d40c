import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { loadAverage } from "../proxy-process.ts";
import { createTable } from "../proxy-table.ts";
import { type BenchSidecar, deployed, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";
import { type CpuShare, createCpuShare } from "./cpu-share.ts";

interface BrokerRuns {
  readonly rounds: number;
  readonly seconds: number;
}

/** What each broker gets of a core. */
const cores = 0.25;
const compared = [1, 3] as const;
const integration = "sandbox-files";
/** Connections for each second and broker, each with one run: more than it can run. */
const connectionsPerSecond = 45;
const warmUpSeconds = 2;

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

/**
 * Runs of one broker and of three, each held to the same part of a core, over one PostgreSQL that is not limited, as the
 * provider is not. All runs are due at once; each has a request to its provider and records to save.
 */
export async function brokerRuns({ rounds, seconds }: BrokerRuns): Promise<void> {
  const lookSeconds = seconds || 8;
  const [server, sandbox] = [await startPostgres(), await startSandbox({})];
  const table = createTable(["runs/s", "CPU ms each", "cores"]);
  const rates: Record<number, number[]> = { 1: [], 3: [] };
  try {
    await withFolder(async (folder) => {
      mkdirSync(`${folder}/scripts/${integration}/syncs`, { recursive: true });
      writeFileSync(`${folder}/scripts/${integration}/syncs/files.ts`, script);
      writeFileSync(`${folder}/latchkey.yaml`, JSON.stringify({ providers: describeProviders(sandbox.origin) }));
      const fleets: Fleet[] = [];
      for (const count of compared) {
        const connections = count * connectionsPerSecond * (lookSeconds + warmUpSeconds);
        fleets.push(await startFleet({ count, connections, folder, server, sandbox }));
      }
      for (let round = 0; round < (rounds || 3); round += 1) {
        for (const fleet of fleets) {
          const { perSecond, cpuSeconds } = await measure(fleet, lookSeconds);
          table.note(`${fleet.all.length} brokers`, [
            perSecond,
            (cpuSeconds / lookSeconds / perSecond) * 1e3,
            cpuSeconds / lookSeconds,
          ]);
          rates[fleet.all.length]?.push(perSecond);
        }
      }
      for (const fleet of fleets) await stop(fleet);
    });
  } finally {
    await sandbox.close();
    await server.stop();
  }
  say(`\nruns that are due, each broker held to ${cores} of a core:`);
  say(table.text({ peers: ["1 brokers"], compared: "runs/s" }));
  const [one = Number.NaN, three = Number.NaN] = compared.map((count) => median(rates[count] ?? []));
  say(`three brokers run ${(three / one).toFixed(2)} times what one does; load average ${loadAverage()}`);
}

interface Broker {
  readonly sidecar: BenchSidecar;
  readonly share: CpuShare;
}

interface Fleet {
  readonly all: readonly Broker[];
  readonly connections: number;
}

interface FleetOptions {
  readonly count: number;
  readonly connections: number;
  readonly folder: string;
  readonly server: Postgres;
  readonly sandbox: Sandbox;
}

async function startFleet({ count, connections, folder, server, sandbox }: FleetOptions): Promise<Fleet> {
  const env = {
    LATCHKEY_STORE: server.storeUrl(`broker_runs_${count}`),
    LATCHKEY_ADMIN_KEY: "lk_bench-admin-key-of-the-control-plane",
    LATCHKEY_SCRIPTS: `${folder}/scripts`,
    LATCHKEY_CONFIG: `${folder}/latchkey.yaml`,
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    ...deployed,
  };
  const all: Broker[] = [];
  for (let i = 0; i < count; i += 1) {
    const sidecar = await startBenchSidecar({ folder, env });
    const share = createCpuShare();
    share.add(sidecar.pid);
    all.push({ sidecar, share });
  }
  const credentials = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
  await post(all, "/integrations", { unique_key: integration, provider: integration, credentials });
  const { access_token } = sandbox.grant({ user: "ada@example.com" });
  for (let i = 0; i < connections; i += 1) {
    const body = { provider_config_key: integration, connection_id: `c${i}` };
    await post(all, "/connections", { ...body, credentials: { type: "OAUTH2", access_token } });
  }
  const least = Math.floor(64 / count);
  while ((await Promise.all(all.map((one) => metricOf(one, "latchkey_partitions")))).some((own) => own < least)) {
    await sleep(250);
  }
  return { all, connections };
}

async function post([first]: readonly Broker[], path: string, body: object): Promise<void> {
  const response = await fetch(`${first?.sidecar.data}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
}

async function metricOf({ sidecar: { ops } }: Broker, name: string): Promise<number> {
  const text = await (await fetch(`${ops}/metrics`)).text();
  const found = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))];
  return found.reduce((sum, [, value]) => sum + Number(value), 0);
}

async function endedIn({ all }: Fleet): Promise<number> {
  const ended = await Promise.all(all.map((one) => metricOf(one, "latchkey_runs_total")));
  return ended.reduce((sum, one) => sum + one, 0);
}

/** Makes every sync due, and counts the runs under the limit; what is left runs without it. */
async function measure(fleet: Fleet, seconds: number) {
  const { all, connections } = fleet;
  const wanted = (await endedIn(fleet)) + connections;
  for (const { share } of all) share.limit(cores);
  await post(all, "/sync/trigger", { provider_config_key: integration, syncs: [] });
  await sleep(warmUpSeconds * 1_000);
  const cpu = () => all.reduce((sum, { share }) => sum + share.seconds(), 0);
  const [from, cpuFrom, since] = [await endedIn(fleet), cpu(), performance.now()];
  await sleep(seconds * 1_000);
  const [to, cpuTo, elapsed] = [await endedIn(fleet), cpu(), performance.now() - since];
  for (const { share } of all) share.limit(undefined);
  if (to >= wanted) throw new Error("too few runs were due");
  while ((await endedIn(fleet)) < wanted) await sleep(250);
  return { perSecond: ((to - from) / elapsed) * 1_000, cpuSeconds: cpuTo - cpuFrom };
}

async function stop({ all }: Fleet): Promise<void> {
  await Promise.all(all.map(({ sidecar }) => sidecar.stop()));
  for (const { share } of all) share.end();
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const say = (text: string) => void process.stdout.write(`${text}\n`);
