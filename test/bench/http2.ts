import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  cores,
  cpuSeconds,
  freePorts,
  isThere,
  loadAverage,
  type Measured,
  pinnedTo,
  startProcess,
} from "./proxy-process.ts";
import { createTable } from "./proxy-table.ts";
import { recordColumn } from "./score/figure.ts";
import { secretKey, startBenchSidecar, withFolder } from "./sidecar-process.ts";

const body = "x".repeat(1_024);
const defaultRounds = 3;
const defaultRequests = 60_000;

/**
 * Calls over HTTP/2 through the proxy (h2load: 4 sessions, 32 streams each), to a provider over HTTP/2 and to one over
 * HTTP/1.1. Beside it nginx, which accepts HTTP/2 and forwards with `grpc_pass`, or with `proxy_pass` over HTTP/1.1.
 * Load and origin share one core; each candidate has the other core to itself.
 */
export async function http2(askedRequests: number, askedRounds: number): Promise<void> {
  for (const program of ["nginx", "h2load"]) if (!isThere(program)) throw new Error(`this bench needs ${program}`);
  const requests = askedRequests || defaultRequests;
  const rounds = askedRounds || defaultRounds;
  await withFolder(async (folder) => {
    const [overHttp2 = 0, overHttp1 = 0, passedOn = 0, passedDown = 0] = await freePorts(4);
    const origin = await startNginx({
      folder: join(folder, "origin"),
      core: cores.load,
      ports: [overHttp2, overHttp1],
      servers: [`listen 127.0.0.1:${overHttp2} http2;`, `listen 127.0.0.1:${overHttp1};`].map(
        (listen) => `server { ${listen} location / { return 200 "${body}"; } }`,
      ),
    });
    const peer = await startNginx({
      folder: join(folder, "peer"),
      core: cores.candidate,
      ports: [passedOn, passedDown],
      servers: [
        `upstream one { server 127.0.0.1:${overHttp2}; keepalive 512; keepalive_requests 1000000000; }
         server { listen 127.0.0.1:${passedOn} http2; location / { grpc_pass grpc://one; grpc_set_header X-Api-Key k; } }`,
        `upstream two { server 127.0.0.1:${overHttp1}; keepalive 512; keepalive_requests 1000000000; }
         server { listen 127.0.0.1:${passedDown} http2; location / { proxy_pass http://two; proxy_http_version 1.1;
           proxy_set_header Connection ""; proxy_set_header X-Api-Key k; } }`,
      ],
    });
    const sidecar = await startFurnished({ folder: join(folder, "latchkey"), overHttp2, overHttp1 });
    const table = createTable(["calls/s", "CPU µs each"]);
    const candidates = [
      ["latchkey, HTTP/2 to HTTP/2", sidecar.pid, `${sidecar.data}/proxy/x`, "two"],
      ["nginx grpc_pass", peer.pid, `http://127.0.0.1:${passedOn}/x`, undefined],
      ["latchkey, HTTP/2 to HTTP/1.1", sidecar.pid, `${sidecar.data}/proxy/x`, "one"],
      ["nginx proxy_pass", peer.pid, `http://127.0.0.1:${passedDown}/x`, undefined],
      ["latchkey, HTTP/1.1 to HTTP/1.1", sidecar.pid, `${sidecar.data}/proxy/x`, "plain"],
    ] as const;
    for (let round = 0; round <= rounds; round += 1) {
      for (const [name, pid, url, to] of candidates) {
        const before = cpuSeconds(pid);
        const since = performance.now();
        await load({ url, requests, to });
        const seconds = (performance.now() - since) / 1_000;
        // The first warms up.
        if (round > 0) table.note(name, [requests / seconds, ((cpuSeconds(pid) - before) / requests) * 1e6]);
      }
    }
    process.stdout.write(`load average ${loadAverage()}\n`);
    process.stdout.write(`${table.text({ peers: ["nginx grpc_pass", "nginx proxy_pass"], compared: "calls/s" })}\n`);
    for (const [to, peer] of [
      ["HTTP/2", "grpc_pass"],
      ["HTTP/1.1", "proxy_pass"],
    ]) {
      const rows = { own: `latchkey, HTTP/2 to ${to}`, peers: { nginx: `nginx ${peer}` } };
      recordColumn(table, { ...rows, name: `HTTP/2 to ${to}, 128 streams`, column: "calls/s", better: "higher" });
    }
    await Promise.all([origin.stop(), peer.stop(), sidecar.stop()]);
  });
}

interface Load {
  readonly url: string;
  readonly requests: number;
  readonly to: "one" | "two" | "plain" | undefined;
}

async function load({ url, requests, to }: Load): Promise<void> {
  const fields =
    to === undefined
      ? []
      : [
          `Authorization: Bearer ${secretKey}`,
          `Provider-Config-Key: ${to === "two" ? "two" : "one"}`,
          "Connection-Id: ada",
        ];
  // HTTP/1.1 carries one request at a time per connection: as many connections as there were streams.
  const shape = to === "plain" ? ["--h1", "-c", "128"] : ["-c", "4", "-m", "32"];
  const args = ["-n", String(requests), ...shape, ...fields.flatMap((field) => ["-H", field]), url];
  const [program = "", ...rest] = [...pinnedTo(cores.load), "h2load", ...args];
  const { stdout } = await promisify(execFile)(program, rest);
  if (!stdout.includes(`status codes: ${requests} 2xx`)) throw new Error(`not all were answered:\n${stdout}`);
}

interface Nginx {
  readonly folder: string;
  readonly core: number;
  readonly ports: readonly number[];
  readonly servers: readonly string[];
}

function startNginx({ folder, core, ports, servers }: Nginx): Promise<Measured> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "nginx.conf");
  // One worker process, so that one process's CPU time counts.
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${folder}/pid; error_log /dev/null;
     events { worker_connections 4096; }
     http { access_log off; keepalive_requests 1000000000; http2_max_concurrent_streams 512;
       client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder};
       uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
       ${servers.join("\n")} }`,
  );
  return startProcess({ command: ["nginx", "-p", folder, "-c", file], core, ports });
}

interface Furnished {
  readonly folder: string;
  readonly overHttp2: number;
  readonly overHttp1: number;
}

async function startFurnished({ folder, overHttp2, overHttp1 }: Furnished) {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "latchkey.yaml");
  const places = [
    { name: "one", port: overHttp1, http2_only: false },
    { name: "two", port: overHttp2, http2_only: true },
  ];
  writeFileSync(
    file,
    JSON.stringify({
      environments: [{ name: "dev" }],
      providers: places.map(({ name, port, http2_only }) => ({
        name,
        api_key: { header: "x-api-key" },
        proxy: { base_url: `https://127.0.0.1:${port}`, http2_only },
      })),
      integrations: places.map(({ name }) => ({ environment: "dev", key: name, provider: name })),
    }),
  );
  const running = await startBenchSidecar({
    folder: join(folder, "store"),
    command: pinnedTo(cores.candidate),
    env: {
      LATCHKEY_CONFIG: file,
      LATCHKEY_ALLOW_PRIVATE: places.map(({ port }) => `http://127.0.0.1:${port}`).join(","),
      LATCHKEY_LOG_FORMAT: "json",
    },
  });
  for (const { name } of places) {
    const { status } = await fetch(`${running.data}/connections`, {
      method: "POST",
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      body: JSON.stringify({
        provider_config_key: name,
        connection_id: "ada",
        credentials: { type: "API_KEY", apiKey: "k" },
      }),
    });
    if (status !== 201) throw new Error(`the connection was not made: ${status}`);
  }
  return running;
}
