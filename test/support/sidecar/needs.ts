import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { hasSquid } from "../peers/squid.ts";
import { hasPatroni } from "../postgres/patroni.ts";
import { findPostgres } from "../postgres/postgres.ts";

/** Programs and features that a machine may lack. A test that needs one declares it, and is visibly skipped. */
const present = {
  curl: () => spawnSync("curl", ["--version"]).status === 0,
  python: () => spawnSync("python3", ["--version"]).status === 0,
  git: () => spawnSync("git", ["--version"]).status === 0,
  pip: () => spawnSync("python3", ["-m", "pip", "--version"]).status === 0,
  /** Debian's python3-requests and python3-httpx. */
  pythonClients: () => spawnSync("/usr/bin/python3", ["-c", "import requests, httpx"]).status === 0,
  gh: () => spawnSync("gh", ["--version"]).status === 0,
  java: () => spawnSync("java", ["--version"]).status === 0,
  go: () => spawnSync("go", ["version"]).status === 0,
  /** A browser: Debian's, or any program with this name. */
  chromium: () => spawnSync("chromium", ["--version"]).status === 0,
  nghttp: () => spawnSync("h2load", ["--version"]).status === 0 && spawnSync("nghttp", ["--version"]).status === 0,
  nghttpd: () => spawnSync("nghttpd", ["--version"]).status === 0,
  /** Debian's python3-h2. */
  pythonH2: () => spawnSync("/usr/bin/python3", ["-c", "import h2"]).status === 0,
  php: () => spawnSync("php", ["--version"]).status === 0,
  ruby: () => spawnSync("ruby", ["--version"]).status === 0,
  openssl: () => spawnSync("openssl", ["version"]).status === 0,
  /** A C compiler, on a system that can preload its output before libc. */
  compiler: () => process.platform === "linux" && spawnSync("cc", ["--version"]).status === 0,
  strace: () => spawnSync("strace", ["-V"]).status === 0,
  pgbouncer: () => spawnSync("pgbouncer", ["--version"]).status === 0,
  postgres: () => findPostgres() !== undefined,
  /** Patroni, etcd, PgBouncer, and PostgreSQL as a distribution packages it. */
  patroni: hasPatroni,
  /** Takes files away from a process that runs. */
  prlimit: () => spawnSync("prlimit", ["--version"]).status === 0,
  slowhttptest: () => spawnSync("slowhttptest", ["-h"]).error === undefined,
  /** Builds images without an engine, out of Debian's packages, which it is the system to have. */
  buildah: () => spawnSync("buildah", ["--version"]).status === 0 && spawnSync("apt-get", ["--version"]).status === 0,
  /** Private processes and mounts, as in a container. */
  namespaces: () => spawnSync("unshare", ["--mount", "--pid", "--fork", "true"]).status === 0,
  /** Squid with its helper for passwords. */
  squid: hasSquid,
  /** A network of one's own, in which nothing is reachable. */
  closedNetwork: () => spawnSync("unshare", ["--map-root-user", "--net", "ip", "link", "set", "lo", "up"]).status === 0,
  /** Ports below 1024, such as that of https. */
  lowPorts: () =>
    process.getuid?.() === 0 || Number(readFileSync("/proc/sys/net/ipv4/ip_unprivileged_port_start", "utf8")) <= 443,
  /** Root, which may start programs of other users. */
  users: () =>
    process.platform === "linux" && process.getuid?.() === 0 && spawnSync("setpriv", ["--version"]).status === 0,
  promtool: () => spawnSync("promtool", ["--version"]).status === 0,
  /** Providers' own clients: `npm ci --prefix test/peers/clients --ignore-scripts`. */
  clients: () => hasPackages(fileURLToPath(new URL("../../peers/clients", import.meta.url))),
  /** A small disk of one's own, to fill. */
  tmpfs: () => {
    const folder = mkdtempSync(join(tmpdir(), "latchkey-mount-"));
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]).status === 0;
    if (mounted) spawnSync("umount", [folder]);
    rmdirSync(folder);
    return mounted;
  },
};

/** Whether the packages of a folder are installed, each in the version of its lock file. */
function hasPackages(folder: string): boolean {
  const versions = (file: string) =>
    Object.entries<{ version?: string; optional?: boolean }>(
      JSON.parse(readFileSync(join(folder, file), "utf8")).packages,
    );
  try {
    const installed = new Map(versions("node_modules/.package-lock.json"));
    return versions("package-lock.json").every(
      ([path, { version, optional }]) => path === "" || optional || installed.get(path)?.version === version,
    );
  } catch {
    return false;
  }
}

/** For `it.skipIf(lacks("openssl"))`. Throws if tests may not be skipped. */
export function lacks(need: keyof typeof present): boolean {
  const isLacking = !present[need]();
  if (isLacking && process.env["LATCHKEY_TEST_SKIPS"] === "refused") throw new Error(`this machine lacks ${need}`);
  return isLacking;
}
