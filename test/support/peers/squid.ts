import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { temporaryFolder } from "../sidecar/harness.ts";

/** Checks passwords against a file. */
const helper = "/usr/lib/squid/basic_ncsa_auth";

export const hasSquid = (): boolean => existsSync("/usr/sbin/squid") && existsSync(helper);

/** Squid, which wants a user and a password. */
export interface Squid {
  /** `http://user:password@host:port`. */
  readonly url: string;
  /** Targets of tunnels with their status, in the order of their ends: `200 127.0.0.1:443 ada`. */
  log(): readonly string[];
  /** Ends it, with all tunnels. */
  stop(): Promise<void>;
}

const user = { name: "ada", password: "p@ss word" };

interface SquidOptions {
  /** Where it listens. */
  readonly host?: string;
  /** Address that its connections to origins come from: an origin tells them from direct ones. */
  readonly from?: string;
}

export async function startSquid({ host = "127.0.0.1", from = "127.0.0.2" }: SquidOptions = {}): Promise<Squid> {
  const folder = await temporaryFolder();
  // As root, squid continues as another user, who writes here.
  chmodSync(folder, 0o777);
  const at = (file: string) => join(folder, file);
  const hash = execFileSync("openssl", ["passwd", "-apr1", user.password], { encoding: "utf8" });
  writeFileSync(at("users"), `${user.name}:${hash}`);
  const port = await freePort(host);
  writeFileSync(
    at("squid.conf"),
    `http_port ${host}:${port}
auth_param basic program ${helper} ${at("users")}
auth_param basic children 1 startup=1
acl known proxy_auth REQUIRED
acl tunnels method CONNECT
http_access allow tunnels known
http_access deny all
tcp_outgoing_address ${from}
access_log stdio:${at("access.log")} logformat=squid
buffered_logs off
cache_log ${at("cache.log")}
cache_store_log none
cache deny all
pid_filename none
coredump_dir ${folder}
pinger_enable off
netdb_filename none
visible_hostname squid.test
shutdown_lifetime 0 seconds
`,
  );
  const child = spawn("/usr/sbin/squid", ["-N", "-f", at("squid.conf")], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  await expect.poll(() => accepts(host, port)).toBe(true);
  return {
    url: `http://${user.name}:${encodeURIComponent(user.password)}@${host}:${port}`,
    log: () =>
      (existsSync(at("access.log")) ? readFileSync(at("access.log"), "utf8") : "").split("\n").flatMap((line) => {
        const [, , , status = "", , , target = "", name = ""] = line.trim().split(/\s+/);
        return target === "" ? [] : [`${status.split("/")[1]} ${target} ${name}`];
      }),
    stop: () => end(child),
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

async function freePort(host: string): Promise<number> {
  const server = createServer();
  await once(server.listen(0, host), "listening");
  const { port } = server.address() as AddressInfo;
  await once(server.close(), "close");
  return port;
}

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
