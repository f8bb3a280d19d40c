import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { createAuthority } from "../../cases/control-plane/certificates.ts";
import {
  cores,
  cpuSeconds,
  descriptorLimit,
  freePorts,
  isThere,
  loadAverage,
  pinnedTo,
  pinSelf,
  startProcess,
} from "../proxy-process.ts";
import { recordFigure } from "../score/figure.ts";
import { deployed, quantile, secretKey, startBenchSidecar } from "../sidecar-process.ts";
import { compareLatency } from "./latency.ts";
import { certificateMemory } from "./memory.ts";

interface ForwardProxyBench {
  readonly only: readonly string[];
  readonly rounds: number;
  readonly seconds: number;
}

const adminKey = "lk_bench-admin-key-of-the-control-plane";
const connections = 32;

/**
 * Compares the forward proxy, which ends TLS on one side and begins it on the other, with nginx, which does the same
 * without adding anything. Both are asked by wrk over kept connections; `proxychains4` opens the tunnels for it.
 */
export async function forwardProxy({ only, rounds, seconds }: ForwardProxyBench): Promise<void> {
  const parts = only.length > 0 ? only : ["requests", "latency", "memory"];
  if (parts.includes("memory")) await certificateMemory();
  if (!["requests", "latency", "realtime"].some((part) => parts.includes(part))) return;
  for (const program of ["nginx", "wrk", "proxychains4"]) {
    if (!isThere(program)) throw new Error(`this bench needs ${program}`);
  }
  pinSelf();
  const folder = mkdtempSync(join(tmpdir(), "latchkey-bench-"));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
  const [originPort = 0, nginxPort = 0] = await freePorts(2);
  const authority = createAuthority(folder, "origin-ca");
  const { cert, key } = authority.issue("origin", { names: "DNS:localhost,IP:127.0.0.1" });

  const files = { folder, cert, key, ca: authority.cert };
  const origin = await startNginx(
    "origin",
    { ...files, port: originPort, location: `return 200 "${"x".repeat(1_024)}";` },
    cores.load,
  );
  cleanup.defer(origin.stop);
  const nginx = await startNginx(
    "nginx",
    { ...files, port: nginxPort, location: passTo(authority.cert), originPort },
    cores.candidate,
  );
  cleanup.defer(nginx.stop);
  const sidecar = await startBenchSidecar({
    folder: join(folder, "store"),
    command: pinnedTo(cores.candidate),
    env: {
      ...deployed,
      LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0",
      LATCHKEY_ADMIN_KEY: adminKey,
      LATCHKEY_ALLOW_PRIVATE: `127.0.0.1:${originPort}`,
      LATCHKEY_PROVIDER_CA: authority.cert,
    },
  });
  cleanup.defer(sidecar.stop);
  const { proxy, ca } = await connectProvider(sidecar, originPort);
  const url = `https://127.0.0.1:${originPort}`;

  const compare = () => {
    const originCa = readFileSync(authority.cert, "utf8");
    const peerUrl = `https://127.0.0.1:${nginxPort}`;
    return compareLatency({ proxy, url, peerUrl, originCa, ca, rounds: rounds || 8, seconds: seconds || 2 });
  };
  if (parts.includes("latency")) await compare();
  if (parts.includes("realtime")) {
    for (const { pid } of [sidecar, nginx, origin, process]) preferMainThread(pid);
    await compare();
  }
  if (!parts.includes("requests")) return;
  const tunneled = ["proxychains4", "-q", "-f", chainFile(folder, proxy)];
  const candidates = [
    { name: "nginx", pid: nginx.pid, command: [], url: `https://127.0.0.1:${nginxPort}/` },
    { name: "latchkey", pid: sidecar.pid, command: tunneled, url: `${url}/` },
  ];
  const results = new Map<string, { rate: number; cpu: number }[]>();
  for (let round = 0; round <= (rounds || 5); round += 1) {
    for (const { name, pid, command, url: at } of candidates) {
      const before = cpuSeconds(pid);
      const rate = await measure(command, at, seconds || 4);
      const cpu = (cpuSeconds(pid) - before) / (rate * (seconds || 4));
      // The first round warms up.
      if (round > 0) results.set(name, [...(results.get(name) ?? []), { rate, cpu: cpu * 1e6 }]);
    }
  }
  const rates = (name: string) => (results.get(name) ?? []).map(({ rate }) => rate);
  const [own, peers] = [rates("latchkey"), { nginx: rates("nginx") }];
  const name = `forward proxy, TLS on both sides, ${connections} connections`;
  recordFigure({ name, unit: "req/s", better: "higher", own, peers });
  const of = (name: string) => {
    const all = results.get(name) ?? [];
    return { rate: median(all.map(({ rate }) => rate)), cpu: median(all.map(({ cpu }) => cpu)) };
  };
  const [peer, mine] = [of("nginx"), of("latchkey")];
  // Each ratio is of one round's own pair.
  const ratios = own.map((rate, i) => rate / (peers.nginx[i] ?? rate)).toSorted((a, b) => a - b);
  const [least = 0, most = 0] = [ratios[0], ratios.at(-1)];
  const pairs = `${median(ratios).toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`;
  process.stdout.write(`
requests over TLS on both sides, ${connections} connections, 1 KiB, medians; load ${loadAverage()}
nginx     ${peer.rate.toFixed(0)} req/s  ${peer.cpu.toFixed(1)} µs CPU
latchkey  ${mine.rate.toFixed(0)} req/s  ${mine.cpu.toFixed(1)} µs CPU
ratio     ${pairs} of nginx's requests, ${(mine.cpu / peer.cpu).toFixed(2)} of its CPU
`);
}

/**
 * Lets the main thread of a process run before anything else that the machine does. Threads of V8 keep their priority:
 * they and the main thread would wait for each other.
 */
function preferMainThread(pid: number): void {
  const { status, stderr } = spawnSync("chrt", ["--fifo", "--pid", "10", String(pid)]);
  if (status !== 0) throw new Error(`chrt failed: it needs root. ${stderr}`);
}

async function measure(command: readonly string[], url: string, seconds: number): Promise<number> {
  const words = [...pinnedTo(cores.load), ...command, "wrk", "-t1", `-c${connections}`, `-d${seconds}s`, url];
  const { stdout } = await promisify(execFile)(words[0] ?? "", words.slice(1));
  const errors = /Non-2xx or 3xx responses: (\d+)|Socket errors: .*/.exec(stdout);
  if (errors !== null) process.stdout.write(`${url}: ${errors[0]}\n`);
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1] ?? 0);
}

interface NginxServer {
  readonly folder: string;
  readonly port: number;
  readonly cert: string;
  readonly key: string;
  readonly location: string;
  readonly originPort?: number;
}

const passTo = (ca: string): string => `
  proxy_pass https://origin; proxy_http_version 1.1; proxy_set_header Connection "";
  proxy_set_header Authorization "Bearer token"; proxy_buffering off;
  proxy_ssl_verify on; proxy_ssl_trusted_certificate ${ca}; proxy_ssl_name localhost; proxy_ssl_server_name on;
  proxy_ssl_session_reuse on;`;

function startNginx(name: string, { folder, port, cert, key, location, originPort }: NginxServer, core: number) {
  const path = join(folder, `${name}.conf`);
  const upstream =
    originPort === undefined
      ? ""
      : `upstream origin { server 127.0.0.1:${originPort}; keepalive 512; keepalive_requests 1000000000; }`;
  const descriptors = descriptorLimit();
  writeFileSync(
    path,
    `daemon off; master_process off; worker_processes 1; pid ${folder}/${name}.pid; error_log stderr crit;
    worker_rlimit_nofile ${descriptors}; events { worker_connections ${descriptors}; }
    http {
      access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
      client_body_temp_path ${folder}/${name}-body; proxy_temp_path ${folder}/${name}-proxy;
      fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
      ${upstream}
      server {
        listen 127.0.0.1:${port} ssl backlog=4096; ssl_certificate ${cert}; ssl_certificate_key ${key};
        ssl_protocols TLSv1.2 TLSv1.3; default_type application/json;
        location / { ${location} }
      }
    }`,
  );
  return startProcess({ command: ["nginx", "-c", path], core, ports: [port] });
}

/** proxychains4 makes every connection of a program a tunnel. */
function chainFile(folder: string, proxy: string): string {
  const { hostname, port } = new URL(proxy);
  const path = join(folder, "proxychains.conf");
  writeFileSync(path, `strict_chain\n[ProxyList]\nhttp ${hostname} ${port} latchkey ${secretKey}\n`);
  return path;
}

async function connectProvider(sidecar: { readonly control: string; readonly data: string }, port: number) {
  const bearer = (key: string) => ({
    interceptors: [
      (next: (request: never) => Promise<never>) => (request: { header: Headers }) => {
        request.header.set("authorization", `Bearer ${key}`);
        return next(request as never);
      },
    ],
  });
  const transport = createGrpcTransport({ baseUrl: sidecar.control, ...(bearer(adminKey) as object) });
  await createClient(ProviderService, transport).createProvider({
    provider: { name: "here", auth: { case: "apiKey", value: {} }, proxy: { baseUrl: `https://127.0.0.1:${port}` } },
  });
  await createClient(IntegrationService, transport).createIntegration({
    integration: { environment: "dev", key: "here", provider: "here" },
  });
  const made = await fetch(`${sidecar.data}/connections`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      provider_config_key: "here",
      connection_id: "ada",
      credentials: { type: "API_KEY", apiKey: "token" },
    }),
  });
  if (made.status !== 201) throw new Error(`the connection was not made: ${await made.text()}`);
  const { certificates, proxyAddress } = await createClient(AuthorityService, transport).getAuthority({});
  return { proxy: proxyAddress, ca: certificates.map(({ pem }) => pem).join("") };
}

const median = (values: readonly number[]): number =>
  quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
