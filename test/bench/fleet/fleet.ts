import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { loadAverage } from "../proxy-process.ts";
import { type BenchSidecar, deployed, ms, quantile, startBenchSidecar, withFolder } from "../sidecar-process.ts";
import type { EdgeOfBench, EdgesRequest, EdgesResult } from "./edges-program.ts";
import { cpuOf, cpuOfServer } from "./empty.ts";

const adminKey = "lk_bench-admin-key-of-the-control-plane";
const integration = "keyed";
const brokerCount = 3;
const environmentCount = 50;
/** As over a network or with a synchronous standby: each write to the log waits this long. */
const settings = { commit_delay: "3000", commit_siblings: "0", max_connections: "200" };
const program = fileURLToPath(new URL("edges-program.ts", import.meta.url));
/** Loads of the model: writes of a pod in a second. */
const writeRates = [0, 0.1, 1] as const;
const podCounts = [100, 1_000, 10_000] as const;
/** What a broker may use of a core, so that it has room for a refresh storm and for a neighbor's fall. */
const usableCore = 0.6;

interface Fleet {
  /** Number of edges. */
  readonly count: number;
  readonly seconds: number;
}

/** Edges with the real client over three brokers on one PostgreSQL: at rest, and with a write a second of each. */
export async function fleet({ count, seconds }: Fleet): Promise<void> {
  const edges = count || 1_000;
  const server = await startPostgres({ settings });
  try {
    await withFolder(async (folder) => {
      const brokers: BenchSidecar[] = [];
      for (let i = 0; i < brokerCount; i += 1) {
        const env = {
          LATCHKEY_STORE: server.storeUrl("bench"),
          LATCHKEY_ADMIN_KEY: adminKey,
          ...deployed,
        };
        brokers.push(await startBenchSidecar({ folder: `${folder}/${i}`, env }));
      }
      await measure({ brokers, server, edges, seconds: seconds || 15 });
      await Promise.all(brokers.map((broker) => broker.stop()));
    });
  } finally {
    await server.stop();
  }
}

interface Setting {
  readonly brokers: readonly BenchSidecar[];
  readonly server: Postgres;
  readonly edges: number;
  readonly seconds: number;
}

async function measure({ brokers, server, edges, seconds }: Setting): Promise<void> {
  const before = brokers.reduce((sum, broker) => sum + broker.ownMiB(), 0);
  const { followers, writers } = await populate(brokers[0], edges);
  const request = {
    control: brokers.map(({ control }) => control),
    data: brokers.map(({ data }) => data),
    integration,
  };
  const clients = await startEdges({ ...request, writes: false, edges: followers });
  const writing = await startEdges({ ...request, writes: true, edges: writers });
  await sleep(5_000);
  const look = () => lookAt({ brokers, server, pid: clients.pid });

  const [restFrom, restUntil] = [await look(), await sleep(seconds * 1_000).then(look)];
  const rest = difference(restFrom, restUntil);
  const memory = (brokers.reduce((sum, broker) => sum + broker.ownMiB(), 0) - before) / edges;
  say(
    `at rest: ${edges} edges in ${environmentCount} environments over ${brokerCount} brokers: PostgreSQL ${rest.server.toFixed(2)} cores, ${restUntil.connections} connections, ${Math.round(rest.transactions)} transactions/s; brokers ${rest.brokers.toFixed(2)} cores in all; an edge ${((1_000 * rest.edges) / edges).toFixed(2)} millicores, ${(memory * 1_024).toFixed(0)} KiB in a broker`,
  );

  const changesBefore = (await clients.run(0)).changes;
  const commitsBefore = await commitTimes(brokers);
  const from = await look();
  const written = await writing.run(seconds);
  const busy = difference(from, await look());
  const commits = commitQuantile(commitsBefore, await commitTimes(brokers), 0.99);
  await sleep(2_000);
  const changes = (await clients.run(0)).changes - changesBefore;
  const all = written.latenciesMs.toSorted((a, b) => a - b);
  const rate = all.length / busy.seconds;
  say(
    `a write a second of each: ${Math.round(rate)}/s, ${written.failed} failed, p50 ${ms(quantile(all, 0.5))}, p99 ${ms(quantile(all, 0.99))} at the caller; p99 of a commit in the brokers at most ${ms(commits * 1_000)}; PostgreSQL ${busy.server.toFixed(2)} cores, ${busy.connections} connections, ${(busy.transactions / rate).toFixed(2)} transactions and ${(busy.rows / rate).toFixed(2)} rows read a write, ${Math.round(busy.walBytes / rate)} bytes of log a write; brokers ${busy.brokers.toFixed(2)} cores in all; edges ${((1_000 * busy.edges) / edges).toFixed(2)} millicores and ${Math.round(busy.bytes / edges)} bytes/s each; ${(changes / all.length).toFixed(2)} changes sent to edges a write; load average ${loadAverage()}`,
  );
  model({ edges, rest, busy, rate, memory });
  clients.stop();
  writing.stop();
}

interface Population {
  readonly followers: readonly EdgeOfBench[];
  readonly writers: readonly EdgeOfBench[];
}

/** One connection for each edge, spread over the environments. */
async function populate(broker: BenchSidecar | undefined, edges: number): Promise<Population> {
  if (broker === undefined) throw new Error("there is a broker");
  const admin = createGrpcTransport({ baseUrl: broker.control, interceptors: [withKey(adminKey)] });
  const environments = createClient(EnvironmentService, admin);
  const followers: EdgeOfBench[] = [];
  const writers: EdgeOfBench[] = [];
  for (let i = 0; i < environmentCount; i += 1) {
    const environment = `team-${i}`;
    await environments.createEnvironment({ name: environment });
    await createClient(IntegrationService, admin).createIntegration({
      integration: { environment, key: integration, provider: "example-api-key" },
    });
    const [reading, writing] = await Promise.all([
      environments.createKey({ environment, id: `edges-${i}`, scopes: [Scope.EDGE] }),
      environments.createKey({ environment, id: `writers-${i}` }),
    ]);
    const ids = Array.from({ length: Math.ceil((edges - i) / environmentCount) }, (_, n) => `user-${n}`);
    await Promise.all(
      ids.map(async (id) => {
        await createClient(ConnectionService, admin).importConnection({
          connection: {
            environment,
            integration,
            id,
            credentials: { kind: { case: "apiKey", value: { apiKey: `key-of-${id}` } } },
          },
        });
        followers.push({ environment, id, key: reading.secret });
        writers.push({ environment, id, key: writing.secret });
      }),
    );
  }
  return { followers, writers };
}

interface Look {
  readonly atMs: number;
  readonly server: number;
  readonly brokers: number;
  readonly edges: number;
  readonly transactions: number;
  readonly rows: number;
  readonly walBytes: number;
  readonly connections: number;
  readonly bytes: number;
}

async function lookAt({
  brokers,
  server,
  pid,
}: {
  readonly brokers: readonly BenchSidecar[];
  readonly server: Postgres;
  readonly pid: number;
}): Promise<Look> {
  const [row] = await server.query(
    `select xact_commit::int as transactions, tup_fetched::float8 as rows,
      (select wal_bytes::float8 from pg_stat_wal) as "walBytes",
      (select count(*)::int from pg_stat_activity where datname = 'postgres' and pid <> pg_backend_pid()) as connections
    from pg_stat_database where datname = 'postgres'`,
  );
  return {
    ...row,
    atMs: performance.now(),
    server: cpuOfServer(server.dataFolder),
    brokers: brokers.reduce((sum, broker) => sum + cpuOf(broker.pid), 0),
    edges: cpuOf(pid),
    bytes: Number(/rchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1] ?? 0),
  };
}

type Buckets = ReadonlyMap<number, number>;

/** Commits of all brokers, by the upper bound of their time in seconds. */
async function commitTimes(brokers: readonly BenchSidecar[]): Promise<Buckets> {
  const sums = new Map<number, number>();
  for (const { ops } of brokers) {
    const text = await (await fetch(`${ops}/metrics`)).text();
    for (const [, bound = "", count] of text.matchAll(
      /^latchkey_store_commit_seconds_bucket\{le="([^"]+)"\} (\d+)/gm,
    )) {
      const upTo = bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound);
      sums.set(upTo, (sums.get(upTo) ?? 0) + Number(count));
    }
  }
  return sums;
}

/** Returns the bound below which this share of the commits between two looks was, in seconds. */
function commitQuantile(from: Buckets, until: Buckets, share: number): number {
  const counts = [...until].map(([bound, count]) => [bound, count - (from.get(bound) ?? 0)] as const);
  const all = counts.find(([bound]) => bound === Number.POSITIVE_INFINITY)?.[1] ?? 0;
  const [found] = counts.filter(([, count]) => count >= all * share).toSorted(([one], [other]) => one - other);
  return found?.[0] ?? Number.NaN;
}

type Rates = Omit<Look, "atMs"> & { readonly seconds: number };

/** Each in a second; connections as they are at the end. */
function difference(from: Look, until: Look): Rates {
  const seconds = (until.atMs - from.atMs) / 1_000;
  const of = (name: keyof Look) => (until[name] - from[name]) / seconds;
  return {
    seconds,
    server: of("server"),
    brokers: of("brokers"),
    edges: of("edges"),
    transactions: of("transactions"),
    rows: of("rows"),
    walBytes: of("walBytes"),
    bytes: of("bytes"),
    connections: until.connections,
  };
}

interface Coefficients {
  readonly edges: number;
  readonly rest: Rates;
  readonly busy: Rates;
  readonly rate: number;
  /** MiB of a broker for each edge. */
  readonly memory: number;
}

/** Straight lines through this run: what more pods need. */
function model({ edges, rest, busy, rate, memory }: Coefficients): void {
  const write = { brokers: (busy.brokers - rest.brokers) / rate, server: (busy.server - rest.server) / rate };
  // What a broker costs without edges is small, and is counted with them.
  const pod = { brokers: rest.brokers / edges, server: rest.server / edges };
  say(
    `model: a pod at rest ${(pod.brokers * 1e3).toFixed(2)} millicores of a broker; a write ${(write.brokers * 1e6).toFixed(0)} µs of brokers and ${(write.server * 1e6).toFixed(0)} µs of PostgreSQL`,
  );
  for (const pods of podCounts) {
    for (const each of writeRates) {
      const writes = pods * each;
      const brokerCores = pods * pod.brokers + writes * write.brokers;
      const serverCores = rest.server + writes * write.server;
      const wanted = Math.max(brokerCount, Math.ceil(brokerCores / usableCore));
      say(
        `  ${pods} pods, ${each} writes/s each: brokers ${brokerCores.toFixed(2)} cores (${wanted} brokers), ${Math.round((pods * memory) / wanted)} MiB in each for edges; PostgreSQL ${serverCores.toFixed(2)} cores`,
      );
    }
  }
}

interface Running {
  readonly pid: number;
  run(seconds: number): Promise<EdgesResult>;
  stop(): void;
}

async function startEdges(asked: EdgesRequest): Promise<Running> {
  const child = spawn(process.execPath, ["--max-semi-space-size=16", program], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, EDGES: JSON.stringify(asked) },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error("a process of edges ended");
    return value;
  };
  await next();
  return {
    pid: child.pid ?? 0,
    async run(seconds) {
      child.stdin.write(`${seconds}\n`);
      return JSON.parse(await next()) as EdgesResult;
    },
    stop: () => void child.stdin.end(),
  };
}

const withKey =
  (key: string): Interceptor =>
  (next) =>
  (request) => {
    request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };

const say = (line: string) => void process.stdout.write(`${line}\n`);
