import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { ms, quantile } from "../sidecar-process.ts";
import type { WritersRequest, WritersResult } from "./writers-program.ts";

interface HeadsOptions {
  /** Writers in all. */
  readonly count: number;
  /** Some of `paced`, `flood`, `single`; all if empty. */
  readonly only: readonly string[];
  readonly seconds: number;
  /** Another checkout, whose store is measured in turns with this one. */
  readonly beside: string | undefined;
}

interface Load {
  readonly processes: number;
  readonly environments: number;
  readonly writers: number;
  readonly rate: number;
}

/** As over a network or with a synchronous standby: each write to the log waits this long. */
const commitDelayUs = 3_000;
const program = fileURLToPath(new URL("writers-program.ts", import.meta.url));
const here = fileURLToPath(new URL("../../..", import.meta.url));

/** What writers in several processes wait for a commit, on a server that takes 3 ms to make one durable. */
export async function heads({ count, only, seconds, beside }: HeadsOptions): Promise<void> {
  const writers = count || 1_000;
  const has = (name: string) => only.length === 0 || only.includes(name);
  const loads: Load[] = [];
  if (has("paced")) for (const processes of [3, 9]) loads.push({ processes, environments: 50, writers, rate: 1 });
  if (has("flood")) for (const processes of [3, 9]) loads.push({ processes, environments: 50, writers, rate: 0 });
  if (has("single")) loads.push({ processes: 1, environments: 1, writers: 64, rate: 0 });
  const roots = new Map([["this", here]]);
  if (beside !== undefined) roots.set("beside", beside);
  const settings = { commit_delay: String(commitDelayUs), commit_siblings: "0", max_connections: "200" };
  const server = await startPostgres({ settings });
  try {
    for (const [i, load] of loads.entries())
      for (const [name, root] of roots)
        await measure({ name, root, load, server, seconds: seconds || 8, schema: `${name}_${i}` });
  } finally {
    await server.stop();
  }
}

interface Measurement {
  readonly name: string;
  readonly root: string;
  readonly load: Load;
  readonly server: Postgres;
  readonly seconds: number;
  readonly schema: string;
}

async function measure({ name, root, load, server, seconds, schema }: Measurement): Promise<void> {
  const { processes, environments, writers, rate } = load;
  const url = server.storeUrl(schema);
  const all: Writers[] = [];
  for (let i = 0; i < processes; i += 1) {
    const share = Math.floor((writers * (i + 1)) / processes) - Math.floor((writers * i) / processes);
    all.push(await startWriters({ url, root, process: i, writers: share, environments, rate, seconds }));
  }
  const before = await loadOf(server);
  const results = await Promise.all(all.map((one) => one.run()));
  const after = await loadOf(server);
  const latencies = results.flatMap(({ latenciesMs }) => latenciesMs).sort((a, b) => a - b);
  const perSecond = latencies.length / seconds;
  const cpu = results.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / latencies.length;
  process.stdout.write(
    `${name}: ${writers} writers in ${environments} environments over ${processes} processes, ${rate === 0 ? "one commit after another" : `${rate}/s each`}: ` +
      `${Math.round(perSecond)} commits/s, p50 ${ms(quantile(latencies, 0.5))}, p99 ${ms(quantile(latencies, 0.99))}, ` +
      `worst ${ms(quantile(latencies, 1))}; ${Math.round((after.done - before.done) / (seconds + 1))} transactions/s, ` +
      `${after.connections} connections, ${(cpu * 1_000).toFixed(0)} µs of the processes' CPU a commit\n`,
  );
}

async function loadOf(server: Postgres): Promise<{ readonly done: number; readonly connections: number }> {
  const [row] = await server.query(
    `select xact_commit::int as done,
      (select count(*)::int from pg_stat_activity where datname = 'postgres' and pid <> pg_backend_pid()) as connections
    from pg_stat_database where datname = 'postgres'`,
  );
  return row;
}

interface Writers {
  run(): Promise<WritersResult>;
}

async function startWriters(asked: WritersRequest): Promise<Writers> {
  const child = spawn(process.execPath, [program, JSON.stringify(asked)], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error("a process of writers ended");
    return value;
  };
  await next();
  return {
    async run() {
      child.stdin.write("go\n");
      const result = JSON.parse(await next()) as WritersResult;
      await new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve(undefined)));
      return result;
    },
  };
}
