import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { handOver, type ServerProcess, servantFolder, startServer } from "./postgres.ts";

/** Three PostgreSQL servers under Patroni, with one synchronous standby, and PgBouncer before the primary. */
export interface PatroniCluster {
  readonly nodes: readonly PatroniNode[];
  /** The address of a store: through PgBouncer, or of all servers. */
  storeUrl(schema: string, way: "pooler" | "servers"): string;
  /** The server that accepts writes; waits for one. */
  primary(): Promise<PatroniNode>;
  /** Waits until all nodes run and one standby is synchronous, and returns the standbys. */
  whole(): Promise<{ readonly synchronous: PatroniNode; readonly asynchronous: PatroniNode }>;
  /** Makes PgBouncer lead to this server, as Patroni's callback does. */
  lead(node: PatroniNode): void;
  stop(): Promise<void>;
}

export interface PatroniNode {
  readonly name: string;
  readonly port: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test knows itself what it selects.
  query(sql: string): Promise<any[]>;
  /** Whether Patroni lets it replace the primary: only a synchronous standby has all commits. */
  isSynchronous(): Promise<boolean>;
  /** kill -9 of all processes of PostgreSQL, or of Patroni, or of the machine: both, and its member of etcd if it has one. */
  kill(what: "postgres" | "patroni" | "machine"): void;
  /** Stops the machine without an end, as a hypervisor does: connections stay, and nobody answers. */
  freeze(): void;
  thaw(): void;
  /** Starts Patroni, which starts PostgreSQL. */
  start(): void;
  /** The end of what Patroni wrote. */
  said(): string;
}

interface PatroniOptions {
  /** Seconds after which a primary whose machine died is replaced, at most. */
  readonly ttl: number;
  /** A primary without a synchronous standby accepts no writes. */
  readonly isStrict?: boolean;
  /** Each machine has a member of etcd, instead of one that never fails. */
  readonly hasOwnEtcd?: boolean;
}

/** The folder of PostgreSQL's programs that Patroni needs, which only a distribution's packages have. */
export function findPatroniPostgres(): string | undefined {
  const debian = "/usr/lib/postgresql";
  const folders = existsSync(debian) ? readdirSync(debian).map((version) => join(debian, version, "bin")) : [];
  return folders.toReversed().find((bin) => ["postgres", "pg_rewind"].every((name) => existsSync(join(bin, name))));
}

export const hasPatroni = (): boolean =>
  findPatroniPostgres() !== undefined &&
  ["patroni", "etcd", "pgbouncer"].every((program) => spawnSync(program, ["--version"]).status === 0);

const local = "127.0.0.1";
const wholeWithinMs = 120_000;
/** A frozen server never answers. */
const answerWithinMs = 2_000;
const names = ["one", "two", "three"];

export async function startPatroni({
  ttl,
  isStrict = false,
  hasOwnEtcd = false,
}: PatroniOptions): Promise<PatroniCluster> {
  const folder = servantFolder();
  // A run that is broken off leaves no server behind.
  const killAll = () => killUnder(folder, () => true);
  process.on("exit", killAll);
  const folders = names.map((name) => join(folder, name));
  for (const own of folders) {
    mkdirSync(own);
    handOver(own);
  }
  const members = await makeEtcd(hasOwnEtcd ? folders : [folder]);
  const pooler = await startPooler(folder);
  const etcdHosts = members.map(({ client }) => client);
  const nodes: PatroniNode[] = [];
  for (const [i, name] of names.entries()) {
    const ports = { port: await lowPort(), restPort: await lowPort() };
    const member = hasOwnEtcd ? members[i] : undefined;
    nodes.push(makeNode({ name, folder, ...ports, etcdHosts, member, ttl, isStrict }));
  }

  async function primary(): Promise<PatroniNode> {
    const until = performance.now() + wholeWithinMs;
    while (performance.now() < until) {
      const found = await Promise.all(nodes.map((node) => standbyState(node)));
      const index = found.indexOf("primary");
      const node = nodes[index];
      if (node !== undefined) return node;
      await sleep(100);
    }
    throw new Error(`no server became the primary:\n${nodes.map((node) => node.said()).join("\n")}`);
  }

  async function whole() {
    const until = performance.now() + wholeWithinMs;
    for (; performance.now() < until; await sleep(200)) {
      const leader = await primary();
      const following = await leader
        .query("select application_name as name from pg_stat_replication where state = 'streaming'")
        // It has just been replaced.
        .catch(() => []);
      const standbys = nodes.filter((node) => following.some(({ name }) => name === node.name));
      const flags = await Promise.all(standbys.map((node) => node.isSynchronous()));
      const synchronous = standbys[flags.indexOf(true)];
      const asynchronous = standbys[flags.indexOf(false)];
      if (synchronous !== undefined && asynchronous !== undefined) return { synchronous, asynchronous };
    }
    throw new Error(`the cluster is not whole:\n${nodes.map((node) => node.said()).join("\n")}`);
  }

  const cluster: PatroniCluster = {
    nodes,
    storeUrl(schema, way) {
      const hosts = nodes.map(({ port }) => `${local}:${port}`).join(",");
      return way === "pooler"
        ? `postgres://postgres@${local}:${pooler.port}/postgres?schema=${schema}`
        : `postgres://postgres@${hosts}/postgres?schema=${schema}&target_session_attrs=read-write`;
    },
    primary,
    whole,
    lead: ({ port }) => pooler.lead(port),
    async stop() {
      killAll();
      process.off("exit", killAll);
      await Promise.all([...members.map(({ ended }) => ended()), pooler.server.ended]);
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
  const [first, ...others] = nodes;
  first?.start();
  await primary();
  for (const node of others) node.start();
  await whole();
  return cluster;
}

interface EtcdMember {
  /** `host:port` for clients. */
  readonly client: string;
  start(): void;
  ended(): Promise<unknown>;
}

/** Starts etcd with a member in each of these folders. */
async function makeEtcd(folders: readonly string[]): Promise<readonly EtcdMember[]> {
  const places: { readonly name: string; readonly folder: string; readonly client: string; readonly peer: string }[] =
    [];
  for (const [i, folder] of folders.entries()) {
    const [client, peer] = [`${local}:${await lowPort()}`, `${local}:${await lowPort()}`];
    places.push({ name: `etcd-${i}`, folder: join(folder, "etcd"), client, peer });
  }
  const all = places.map(({ name, peer }) => `${name}=http://${peer}`).join();
  const members = places.map(({ name, folder, client, peer }) => {
    const [clients, peers] = [`http://${client}`, `http://${peer}`];
    let server: ServerProcess | undefined;
    return {
      client,
      start() {
        server = startServer("etcd", [
          ...["--name", name, "--data-dir", folder, "--log-level", "error", "--logger", "zap"],
          ...["--listen-client-urls", clients, "--advertise-client-urls", clients],
          ...["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", all],
        ]);
      },
      async answers() {
        const isThere = await server?.answers(async () => {
          const { ok } = await fetch(`${clients}/health`);
          if (!ok) throw new Error("no leader yet");
        });
        if (isThere !== true) throw new Error(`etcd does not start: ${server?.said()}`);
      },
      ended: async () => server?.ended,
    };
  });
  for (const member of members) member.start();
  await Promise.all(members.map((member) => member.answers()));
  return members;
}

/** PgBouncer in transaction mode. Patroni's callback `lead` changes the file of its databases. */
async function startPooler(folder: string) {
  const port = await lowPort();
  const [settingsFile, databases, pid] = ["pgbouncer.ini", "databases.ini", "pgbouncer.pid"].map((name) =>
    join(folder, name),
  );
  const settings = {
    listen_addr: local,
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "any",
    pool_mode: "transaction",
    default_pool_size: 20,
    pidfile: pid,
    // After a failover: connections to the old primary are left at once, and the new one is tried every second.
    server_fast_close: 1,
    server_login_retry: 1,
    server_connect_timeout: 2,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  writeFileSync(settingsFile ?? "", [`%include ${databases}`, "[pgbouncer]", ...lines, ""].join("\n"));
  const databaseLines = (to: number | string) => `[databases]\npostgres = host=${local} port=${to} user=postgres\n`;
  const write = (to: number) => {
    writeFileSync(`${databases}.new`, databaseLines(to));
    handOver(`${databases}.new`);
    renameSync(`${databases}.new`, databases ?? "");
  };
  // Called with the port, the action, the role and the name of the cluster.
  const script = [
    "#!/bin/sh",
    `case "$3" in master|primary) ;; *) exit 0 ;; esac`,
    `printf '${databaseLines("%s").replaceAll("\n", "\\n")}' "$1" > "$0.$1" && mv "$0.$1" ${databases}`,
    `kill -HUP "$(cat ${pid})"`,
    "",
  ];
  writeFileSync(join(folder, "lead"), script.join("\n"), { mode: 0o755 });
  for (const name of [settingsFile, join(folder, "lead")]) handOver(name ?? "");
  write(1);
  const server = startServer("pgbouncer", [settingsFile ?? ""]);
  const isThere = await server.answers(async () => {
    if (!existsSync(pid ?? "")) throw new Error("not yet");
  });
  if (!isThere) throw new Error(`PgBouncer does not start: ${server.said()}`);
  return {
    port,
    server,
    lead(to: number) {
      write(to);
      server.signal("SIGHUP");
    },
  };
}

interface NodeOptions {
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly restPort: number;
  readonly etcdHosts: readonly string[];
  /** The machine's member of etcd, which is running. */
  readonly member: EtcdMember | undefined;
  readonly ttl: number;
  readonly isStrict: boolean;
}

function makeNode(options: NodeOptions): PatroniNode {
  const { name, folder, port, restPort, member } = options;
  const own = join(folder, name);
  const file = join(own, "patroni.yml");
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(settingsOf(options, own)));
  handOver(file);
  let wasKilled = false;
  let patroni: ServerProcess | undefined;
  return {
    name,
    port,
    async query(sql) {
      const client = new Client({
        host: local,
        port,
        user: "postgres",
        database: "postgres",
        password: "-",
        ...limits,
      });
      client.on("error", () => {});
      await client.connect();
      try {
        return (await client.query(sql)).rows;
      } finally {
        await client.end();
      }
    },
    isSynchronous: () =>
      fetch(`http://${local}:${restPort}/synchronous`, { signal: AbortSignal.timeout(answerWithinMs) }).then(
        ({ ok }) => ok,
        () => false,
      ),
    kill(what) {
      const isPatroni = (args: string) => args.includes("patroni.yml");
      const isEtcd = (args: string) => args.includes("--initial-cluster");
      killUnder(own, (args) => what === "machine" || (isPatroni(args) === (what === "patroni") && !isEtcd(args)));
      wasKilled = what === "machine";
    },
    freeze: () => signalUnder(own, () => true, ["SIGSTOP"]),
    thaw: () => signalUnder(own, () => true, ["SIGCONT"]),
    start() {
      if (wasKilled) member?.start();
      wasKilled = false;
      patroni = startServer("patroni", [file]);
    },
    said: () => patroni?.said() ?? "",
  };
}

const limits = { connectionTimeoutMillis: answerWithinMs, query_timeout: 10 * answerWithinMs };

function settingsOf(options: NodeOptions, own: string) {
  const { name, folder, port, restPort, etcdHosts, ttl, isStrict } = options;
  const lead = `${join(folder, "lead")} ${port}`;
  return {
    scope: "latchkey",
    name,
    restapi: { listen: `${local}:${restPort}`, connect_address: `${local}:${restPort}` },
    etcd3: { hosts: etcdHosts },
    bootstrap: {
      dcs: {
        ...{ ttl, loop_wait: 1, retry_timeout: 3, synchronous_mode: true, synchronous_mode_strict: isStrict },
        // A primary that crashed is replaced at once instead of being started again.
        primary_start_timeout: 0,
        postgresql: {
          use_pg_rewind: true,
          use_slots: true,
          parameters: { max_connections: 100, shared_buffers: "32MB" },
        },
      },
      initdb: [{ encoding: "UTF8" }, { locale: "C" }, "data-checksums"],
    },
    postgresql: {
      listen: `${local}:${port}`,
      connect_address: `${local}:${port}`,
      data_dir: join(own, "data"),
      bin_dir: findPatroniPostgres(),
      pgpass: join(own, "pgpass"),
      authentication: { superuser: { username: "postgres" }, replication: { username: "replicator" } },
      parameters: { unix_socket_directories: own },
      pg_hba: [`host all all ${local}/32 trust`, `host replication all ${local}/32 trust`],
      callbacks: { on_start: lead, on_role_change: lead },
    },
  };
}

async function standbyState(node: PatroniNode): Promise<"primary" | "standby" | "away"> {
  try {
    const [row] = await node.query("select pg_is_in_recovery() as standby");
    return row?.standby === true ? "standby" : "primary";
  } catch {
    return "away";
  }
}

/** kill -9 of the processes that have this folder in their arguments, if wanted, and of their children. */
function killUnder(folder: string, isWanted: (args: string) => boolean): void {
  signalUnder(folder, isWanted, ["SIGSTOP", "SIGKILL"]);
}

function signalUnder(folder: string, isWanted: (args: string) => boolean, signals: readonly NodeJS.Signals[]): void {
  const lines = execFileSync("ps", ["-A", "-ww", "-o", "pid=,ppid=,args="], { encoding: "utf8" }).split("\n");
  const all = lines.map((line) => {
    const [, pid = "0", ppid = "0", args = ""] = /^\s*(\d+)\s+(\d+)\s(.*)$/.exec(line) ?? [];
    return { pid: Number(pid), ppid: Number(ppid), args };
  });
  const found = new Set(all.filter(({ args }) => args.includes(`${folder}/`) && isWanted(args)).map(({ pid }) => pid));
  for (let before = 0; before < found.size; ) {
    before = found.size;
    for (const { pid, ppid } of all) if (found.has(ppid)) found.add(pid);
  }
  for (const signal of signals) {
    for (const pid of found) {
      try {
        process.kill(pid, signal);
      } catch {
        // It has ended.
      }
    }
  }
}

/** A free port below those that the system gives to connections: a server must get it again when it is restarted. */
async function lowPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false)).listen(port, local, () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
