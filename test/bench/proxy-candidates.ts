import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../src/gen/latchkey/v1/provider_pb.ts";
import { idOf, importAll, integration } from "./connections.ts";
import { caddyConfiguration, type Hop, haproxyConfiguration, nginxConfiguration } from "./proxy-configurations.ts";
import type { Origins } from "./proxy-origins.ts";
import {
  cores,
  descriptorLimit,
  endWithUs,
  freePorts,
  isThere,
  type Measured,
  pinnedTo,
  startProcess,
} from "./proxy-process.ts";
import { type BenchSidecar, secretKey, startBenchSidecar } from "./sidecar-process.ts";

/** The kinds of origins in the bench. */
export type Way = keyof Origins["ports"];

/** A running proxy between a caller and an origin. */
export interface Candidate extends Measured {
  /** The port where `/proxy/PATH` leads to the origin's `/PATH`. */
  readonly portTo: (way: Way) => number;
}

export interface Kind {
  readonly name: string;
  start(): Promise<Candidate>;
}

const adminKey = "lk_bench-admin-key-of-the-bench-itself";
/** The number of connections in use at a time, spread over the whole store. */
const used = 1_000;
const ways = ["http", "https", "scripted"] as const satisfies readonly Way[];
/** Each origin has its own integration; the first one has all the connections of the store. */
const integrations: Readonly<Record<Way, string>> = {
  http: integration,
  https: "keyed-tls",
  scripted: "keyed-scripted",
};

/** The fields that a caller sends with each request to any candidate. The connection changes from one to the next. */
export const callerFields = (way: Way): readonly (readonly [string, string])[] => [
  ["Authorization", `Bearer ${secretKey}`],
  ["Provider-Config-Key", integrations[way]],
  ["Accept", "application/json"],
  ["User-Agent", "bench/1.0"],
];

export function usedIds(way: Way, count: number): string[] {
  const step = way === "http" ? Math.max(1, Math.floor(count / used)) : 1;
  return Array.from({ length: way === "http" ? Math.min(used, count) : used }, (_, i) => idOf(i * step));
}

interface Kinds {
  readonly origins: Origins;
  readonly folder: string;
  /** Another build of the sidecar (its `latchkey.js`) to measure in the same rounds, or `edge`: an edge of this build. */
  readonly beside: string | undefined;
}

/** The candidates that this machine has, the sidecar first. With another build beside it, only nginx is kept. */
export function kindsThere({ origins, folder, beside }: Kinds): Kind[] {
  const configured = { ca: origins.ca, folder, descriptors: descriptorLimit() };
  const native = (
    name: string,
    command: (file: string) => string[],
    configuration: (hops: readonly Hop[]) => string,
  ) => ({
    name,
    start: () =>
      startHops(origins, async (hops) => {
        const file = join(folder, `${name}.conf`);
        writeFileSync(file, configuration(hops));
        return command(file);
      }),
  });
  const node = (name: string) => ({
    name,
    start: () =>
      startHops(origins, async (hops) => [process.execPath, program, name, origins.ca, ...hops.map(asArgument)]),
  });
  const natives = [
    native(
      "nginx",
      (file) => ["nginx", "-c", file],
      (hops) => nginxConfiguration({ ...configured, hops }),
    ),
    native(
      "haproxy",
      (file) => ["haproxy", "-db", "-q", "-f", file],
      (hops) => haproxyConfiguration({ ...configured, hops }),
    ),
    native(
      "caddy",
      // Caddy writes its running configuration to this folder.
      (file) => ["env", `XDG_CONFIG_HOME=${folder}`, "caddy", "run", "--adapter", "caddyfile", "--config", file],
      (hops) => caddyConfiguration({ ...configured, hops }),
    ),
  ];
  const sidecar = { name: "latchkey", start: () => startSidecar({ origins, folder }, { store: "store" }) };
  if (beside !== undefined) {
    const start = () =>
      beside === "edge"
        ? startEdge({ origins, folder }, "beside")
        : startSidecar({ origins, folder }, { store: "beside", dist: beside });
    const other = { name: beside === "edge" ? "edge" : "beside", start };
    return [sidecar, other, ...natives.slice(0, 1).filter(({ name }) => isThere(name))];
  }
  return [sidecar, ...natives.filter(({ name }) => isThere(name)), node("http-proxy-3"), node("node:http")];
}

const program = fileURLToPath(new URL("proxy-relays.ts", import.meta.url));
const asArgument = ({ port, origin }: Hop) => `${port}=${origin.scheme}://127.0.0.1:${origin.port}`;

async function startHops(
  origins: Origins,
  commandFor: (hops: readonly Hop[]) => Promise<string[]>,
): Promise<Candidate> {
  const ports = await freePorts(ways.length);
  const hops = ways.map((way, i) => {
    const scheme = way === "https" ? ("https" as const) : ("http" as const);
    return { port: ports[i] ?? 0, origin: { scheme, port: origins.ports[way] } };
  });
  const running = await startProcess({ command: await commandFor(hops), core: cores.candidate, ports });
  return { ...running, portTo: (way) => ports[ways.indexOf(way)] ?? 0 };
}

interface SidecarBuild {
  /** The folder of its store, under the folder of the bench. */
  readonly store: string;
  readonly dist?: string | undefined;
  /** A probe to load before it. */
  readonly loaded?: string;
}

export async function startSidecar(
  { origins, folder }: Pick<Kinds, "origins" | "folder">,
  { store, dist, loaded }: SidecarBuild,
): Promise<Candidate & Pick<BenchSidecar, "ask">> {
  const running = await startBenchSidecar({
    folder: join(folder, store),
    dist,
    command: pinnedTo(cores.candidate),
    env: relayEnv({ origins, folder }),
    ...(loaded === undefined ? {} : { loaded }),
  });
  endWithUs(running.pid);
  const port = Number(new URL(running.data).port);
  return { pid: running.pid, stop: running.stop, portTo: () => port, ask: running.ask };
}

/** An edge, and the broker that it follows: only the edge is measured. */
async function startEdge({ origins, folder }: Pick<Kinds, "origins" | "folder">, store: string): Promise<Candidate> {
  const broker = await startBenchSidecar({
    folder: join(folder, store),
    command: pinnedTo(cores.load),
    env: { LATCHKEY_ADMIN_KEY: adminKey },
  });
  endWithUs(broker.pid);
  const edge = await startBenchSidecar({
    folder,
    mode: "edge",
    command: pinnedTo(cores.candidate),
    env: {
      ...relayEnv({ origins, folder }),
      LATCHKEY_BROKERS: broker.control,
      LATCHKEY_BROKERS_KEY: adminKey,
      LATCHKEY_ENVIRONMENT: "dev",
    },
  });
  endWithUs(edge.pid);
  const port = Number(new URL(edge.data).port);
  const stop = async () => {
    await edge.stop();
    await broker.stop();
  };
  return { pid: edge.pid, stop, portTo: () => port };
}

function relayEnv({ origins, folder }: Pick<Kinds, "origins" | "folder">): Readonly<Record<string, string>> {
  const file = join(folder, "latchkey.yaml");
  // No effective limit, like the other candidates.
  writeFileSync(file, "proxy: { requests_per_host: 10000, waiting_per_host: 10000 }\n");
  const { http, https, scripted } = origins.ports;
  return {
    LATCHKEY_CONFIG: file,
    LATCHKEY_PROVIDER_CA: origins.ca,
    LATCHKEY_ALLOW_PRIVATE: [`http://127.0.0.1:${http}`, `127.0.0.1:${https}`, `http://127.0.0.1:${scripted}`].join(),
  };
}

/** Fills the store of one build; returns the connections imported a second. */
export async function fillStore({
  origins,
  folder,
  count,
  store,
  dist,
}: Pick<Kinds, "origins" | "folder"> & SidecarBuild & { readonly count: number }): Promise<number> {
  const running = await startBenchSidecar({
    folder: join(folder, store),
    dist,
    env: { LATCHKEY_ADMIN_KEY: adminKey },
  });
  endWithUs(running.pid);
  const transportWith = (key: string) =>
    createGrpcTransport({ baseUrl: running.control, interceptors: [withKey(key)] });
  const transport = transportWith(secretKey);
  const connections = createClient(ConnectionService, transport);
  let rate = 0;
  for (const way of ways) {
    const baseUrl = `https://127.0.0.1:${origins.ports[way]}`;
    const name = integrations[way];
    await createClient(ProviderService, transportWith(adminKey)).createProvider({
      provider: { name, auth: { case: "apiKey", value: { header: "x-api-key" } }, proxy: { baseUrl } },
    });
    await createClient(IntegrationService, transport).createIntegration({ integration: { key: name, provider: name } });
    const since = performance.now();
    const size = way === "http" ? count : used;
    const failed = await importAll(connections, { count: size, integration: name });
    if (failed > 0) throw new Error(`${failed} of ${size} connections were not imported`);
    if (way === "http") rate = count / ((performance.now() - since) / 1_000);
  }
  await running.stop();
  return rate;
}

const withKey =
  (key: string): Interceptor =>
  (next) =>
  (request) => {
    request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };
