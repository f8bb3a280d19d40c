import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { importAll, integration } from "../connections.ts";
import { recordFigure } from "../score/figure.ts";
import {
  type BenchSidecar,
  builtDist,
  deployed,
  deployedMemory,
  deployedOptions,
  secretKey,
  startBenchSidecar,
  withFolder,
} from "../sidecar-process.ts";
import { bareNode, type Memory, memoryOf, textOf } from "./memory.ts";

interface IdleOptions {
  readonly count: number;
  /** What to measure, of `level`, `edge`, `postgres` and `timers`; all but `timers` if empty. */
  readonly only: readonly string[];
  readonly seconds: number;
  /** Another build of the sidecar (its `latchkey.js`), measured at the same time. */
  readonly beside: string | undefined;
}

interface Counts {
  readonly at: number;
  readonly cpuMs: number;
  readonly wakeUps: number;
  readonly mainWakeUps: number;
}

/** What the process of one build cost in each window. */
interface IdleCost {
  readonly wakeUps: readonly number[];
  readonly millicores: readonly number[];
  readonly memory: readonly Memory[];
}

/** After a start there is work that ends: compiling, the first housekeeping after a minute, collecting when idle. */
const settleSeconds = 75;
const stored = 1_000;
/** One look is as many windows, so that the figure has a spread. */
const windows = 3;
const adminKey = "lk_bench-admin-key-of-the-control-plane";
const source = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
const probe = fileURLToPath(new URL("wake-probe.ts", import.meta.url));

/** What processes cost that have nothing to do: wake-ups, CPU, memory; over PostgreSQL also connections and statements. */
export async function idle({ count, only, seconds, beside }: IdleOptions): Promise<void> {
  const lookSeconds = seconds || 30;
  const dists = new Map([["built", builtDist]]);
  if (beside !== undefined) dists.set("beside", beside);
  const has = (name: string) => only.length === 0 || only.includes(name);
  if (only.includes("timers")) return listTimers(lookSeconds, has("postgres") ? await startPostgres() : undefined);
  const costs = new Map<string, IdleCost>();
  const bare = has("level") ? await bareNode(deployed, windows) : [];
  if (bare.length > 0) process.stdout.write(`node alone: ${textOf(meanOf(bare))}\n`);
  for (const [name, dist] of dists) {
    if (has("level")) {
      await withFolder(async (folder) => {
        const filling = await start({ folder, dist });
        await importSome(filling);
        await filling.stop();
        const running = await start({ folder, dist });
        costs.set(name, await measure(`${name}, level with ${stored} connections`, [running], lookSeconds));
      });
    }
    if (has("edge")) await withFolder((folder) => edge({ name, folder, dist, lookSeconds }));
    if (has("postgres")) await overPostgres({ name, dist, count: count || 1, lookSeconds });
  }
  record(costs, bare);
}

function record(costs: ReadonlyMap<string, IdleCost>, bare: readonly Memory[]): void {
  const name = `idle with ${stored.toLocaleString("en")} connections`;
  const all = [
    { key: "wakeUps", what: "wake-ups of all threads", unit: "a second" },
    { key: "millicores", what: "processor time", unit: "millicores" },
  ] as const;
  const built = costs.get("built");
  const beside = costs.get("beside");
  for (const { key, what, unit } of all) {
    const peers = { beside: beside?.[key] ?? [] };
    recordFigure({ name: `${name}, ${what}`, unit, better: "lower", own: built?.[key] ?? [], peers });
  }
  for (const [what, unit, pick] of parts) {
    const valuesOf = (memory: readonly Memory[] = []) => memory.map(pick);
    const peers = { "node alone": valuesOf(bare), beside: valuesOf(beside?.memory) };
    recordFigure({ name: `${name}, ${what}`, unit, better: "lower", own: valuesOf(built?.memory), peers });
  }
}

const parts: readonly (readonly [what: string, unit: string, pick: (memory: Memory) => number])[] = [
  ["memory", "MiB PSS", ({ pss }) => pss],
  ["anonymous memory", "MiB", ({ anonymous }) => anonymous],
  ["mapped files", "MiB", ({ mapped }) => mapped],
];

const start = ({ folder, dist, env = {} }: { folder: string; dist: string; env?: Readonly<Record<string, string>> }) =>
  startBenchSidecar({ folder, dist, env: { ...deployed, ...env } });

async function importSome({ control }: BenchSidecar): Promise<void> {
  const transport = transportAs(control, secretKey);
  await createClient(IntegrationService, transport).createIntegration({
    integration: { key: integration, provider: "example-api-key" },
  });
  await importAll(createClient(ConnectionService, transport), { count: stored, integration });
}

const transportAs = (baseUrl: string, key: string) =>
  createGrpcTransport({
    baseUrl,
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${key}`);
        return next(request);
      },
    ],
  });

interface EdgeOptions {
  readonly name: string;
  readonly folder: string;
  readonly dist: string;
  readonly lookSeconds: number;
}

/** An edge that follows one broker. */
async function edge({ name, folder, dist, lookSeconds }: EdgeOptions): Promise<void> {
  const broker = await start({ folder, dist, env: { LATCHKEY_ADMIN_KEY: adminKey } });
  await importSome(broker);
  const running = await startBenchSidecar({
    folder,
    dist,
    mode: "edge",
    env: {
      ...deployed,
      LATCHKEY_BROKERS: broker.control,
      LATCHKEY_BROKERS_KEY: adminKey,
      LATCHKEY_ENVIRONMENT: "dev",
    },
  });
  await measure(`${name}, edge`, [running], lookSeconds);
  await broker.stop();
}

interface OverPostgres {
  readonly name: string;
  readonly dist: string;
  readonly count: number;
  readonly lookSeconds: number;
}

async function overPostgres({ name, dist, count, lookSeconds }: OverPostgres): Promise<void> {
  const server = await startPostgres();
  try {
    await withFolder(async (folder) => {
      const env = postgresEnv(server);
      const all: BenchSidecar[] = [];
      for (let i = 0; i < count; i += 1) all.push(await start({ folder, dist, env }));
      await measure(`${name}, postgres (each of ${count})`, all, lookSeconds, server);
    });
  } finally {
    await server.stop();
  }
}

const postgresEnv = (server: Postgres) => ({
  LATCHKEY_STORE: server.storeUrl("idle"),
  LATCHKEY_ADMIN_KEY: adminKey,
});

/** Each statement is a transaction of its own. */
const loadSql = `
  select xact_commit::int as done,
    (select count(*)::int from pg_stat_activity where datname = 'postgres' and pid <> pg_backend_pid()) as connections
  from pg_stat_database where datname = 'postgres'`;

async function measure(
  name: string,
  all: readonly BenchSidecar[],
  lookSeconds: number,
  server?: Postgres,
): Promise<IdleCost> {
  await sleep(settleSeconds * 1_000);
  const [loadBefore] = (await server?.query(loadSql)) ?? [];
  const before = all.map(({ pid }) => countsOf(pid));
  const cost = { wakeUps: [] as number[], millicores: [] as number[], memory: [] as Memory[] };
  let last = before;
  for (let window = 0; window < windows; window += 1) {
    await sleep((lookSeconds * 1_000) / windows);
    const now = all.map(({ pid }) => countsOf(pid));
    const rates = now.map((counts, i) => ratesOf(last[i] ?? counts, counts));
    cost.wakeUps.push(mean(rates.map(({ wakeUps }) => wakeUps)));
    cost.millicores.push(mean(rates.map(({ cpuMs }) => cpuMs)));
    cost.memory.push(meanOf(all.map(({ pid }) => memoryOf(pid))));
    last = now;
  }
  const [load] = (await server?.query(loadSql)) ?? [];
  const rates = last.map((now, i) => ratesOf(before[i] ?? now, now));
  const said = [
    `${mean(rates.map(({ mainWakeUps }) => mainWakeUps)).toFixed(1)} wake-ups/s of the main thread`,
    `${mean(rates.map(({ wakeUps }) => wakeUps)).toFixed(1)} of all threads`,
    `${mean(rates.map(({ cpuMs }) => cpuMs)).toFixed(2)} millicores`,
    textOf(meanOf(all.map(({ pid }) => memoryOf(pid)))),
    `ready after ${mean(all.map(({ readyMs }) => readyMs)).toFixed(0)} ms`,
  ];
  if (load !== undefined) {
    const each = (value: number) => value / all.length;
    said.push(`${each(load.connections).toFixed(1)} connections`);
    said.push(`${each((load.done - loadBefore.done) / lookSeconds).toFixed(2)} statements/s`);
  }
  process.stdout.write(`${name}: ${said.join(", ")}\n`);
  for (const one of all) await one.stop();
  return cost;
}

const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;

const meanOf = (all: readonly Memory[]): Memory => ({
  pss: mean(all.map(({ pss }) => pss)),
  anonymous: mean(all.map(({ anonymous }) => anonymous)),
  files: mean(all.map(({ files }) => files)),
  mapped: mean(all.map(({ mapped }) => mapped)),
});

const ratesOf = (before: Counts, now: Counts) => {
  const seconds = (now.at - before.at) / 1_000;
  const rate = (name: keyof Counts) => (now[name] - before[name]) / seconds;
  return { cpuMs: rate("cpuMs"), wakeUps: rate("wakeUps"), mainWakeUps: rate("mainWakeUps") };
};

/** A wake-up is a switch of the thread that it asked for itself: it had nothing to do. */
function countsOf(pid: number): Counts {
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) => {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, "utf8");
    const [ranNs = 0] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ").map(Number);
    const wakeUps = Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0);
    return { isMain: thread === String(pid), ranNs, wakeUps };
  });
  const sum = (pick: (thread: (typeof threads)[number]) => number) => threads.reduce((all, one) => all + pick(one), 0);
  return {
    at: performance.now(),
    cpuMs: sum(({ ranNs }) => ranNs) / 1e6,
    wakeUps: sum(({ wakeUps }) => wakeUps),
    mainWakeUps: sum(({ isMain, wakeUps }) => (isMain ? wakeUps : 0)),
  };
}

/** Runs the source, for its names of functions. The probe takes time itself, so it is used for nothing else. */
async function listTimers(lookSeconds: number, server: Postgres | undefined): Promise<void> {
  await withFolder(async (folder) => {
    const running = await start({
      folder,
      dist: source,
      env: {
        ...deployedMemory,
        NODE_OPTIONS: `${deployedOptions} --import=${probe}`,
        WAKE_PROBE: `${settleSeconds},${lookSeconds}`,
        ...(server === undefined ? {} : postgresEnv(server)),
      },
    });
    await sleep((settleSeconds + lookSeconds + 2) * 1_000);
    await running.stop();
  });
  await server?.stop();
}
