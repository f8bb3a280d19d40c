import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { writeScripts } from "../../cases/syncs/scripting.ts";
import { startTestEdge } from "../edges/test-edge.ts";
import { apiKey, type ProxiedSidecar, startProxied } from "../peers/provider.ts";
import { startTunnelPort } from "../peers/tunnel-port.ts";
import { secretKey, temporaryFolder } from "../sidecar/harness.ts";
import { type FaceWorld, faceScript } from "./faces.ts";
import { basePath, type CallerKind, callerKinds, places } from "./fuzzed-request.ts";
import { startNotingProvider } from "./noting-provider.ts";

interface StartedFaceWorld {
  readonly world: FaceWorld;
  readonly running: ProxiedSidecar;
  /** Returns what the provider got of a request, and forgets it. */
  readonly take: (id: string) => string | undefined;
}

const hostOf = (port: number): string => `127.0.0.1:${port}`;

/** Starts a provider with three hosts, a sidecar and an edge before it, and callers with and without limits. */
export async function startFaceWorld(): Promise<StartedFaceWorld> {
  const providers = {
    first: await startNotingProvider(),
    second: await startNotingProvider(),
    based: await startNotingProvider(),
  };
  const hosts = eachOf(places, (place) => hostOf(providers[place].port));
  const allowed = places.map((place) => `http://${hosts[place]}`).join(",");
  const aliases = (["here", "based"] as const).map((integration) => ({
    ...{ name: integration, environment: "dev", integration, connection: "ada", listen: "127.0.0.1:0" },
  }));
  // A slow machine refuses no request.
  const config = { aliases, proxy: { overload: { delay: "0s" } } };
  const scripts = await temporaryFolder();
  for (const integration of ["here", "based"]) writeScripts(scripts, { "actions/asks.ts": faceScript }, integration);
  const running = await startProxied(providers.first.port, {
    provider: { proxy: { baseUrl: `https://${hosts.first}`, hosts: [{ origin: `https://${hosts.second}` }] } },
    files: { "/config": JSON.stringify(config) },
    env: {
      ...{ LATCHKEY_CONFIG: "/config", LATCHKEY_ALLOW_PRIVATE: allowed, LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0" },
      LATCHKEY_SCRIPTS: scripts,
    },
  });
  await addBased(running, hosts.based);
  const secrets = await callersOf(running, hosts);
  const edge = await startEdge(running, allowed);
  const forward = running.sidecar.addresses.forwardProxy ?? "";
  const tunnels = await openTunnels(running, { forward, hosts, secrets });
  const { aliases: addresses } = running.sidecar;
  const world: FaceWorld = {
    ...{ data: running.data, edge, forward, secrets, hosts },
    alias: { here: addresses["here"] ?? "", based: addresses["based"] ?? "" },
    tunnel: (place, caller, protocol) => tunnels.get(`${place} ${caller} ${protocol}`) ?? "",
    traffic: eachOf(callerKinds, (kind) => running.client(TrafficService, secrets[kind])),
  };
  const take = (id: string) =>
    places
      .map((place) => [place, providers[place].take(id)])
      .find(([, one]) => one !== undefined)
      ?.join("\n");
  return { world, running, take };
}

const eachOf = <K extends string, V>(keys: readonly K[], of: (key: K) => V): Record<K, V> =>
  Object.fromEntries(keys.map((key) => [key, of(key)])) as Record<K, V>;

async function addBased({ client, rest }: ProxiedSidecar, host: string): Promise<void> {
  await client(ProviderService).createProvider({
    provider: {
      name: "based",
      auth: { case: "apiKey", value: { header: "x-api-key" } },
      proxy: { baseUrl: `https://${host}${basePath}` },
    },
  });
  const credentials = { type: "API_KEY", apiKey };
  for (const [path, body] of [
    ["/integrations", { unique_key: "based", provider: "based" }],
    ["/connections", { provider_config_key: "based", connection_id: "ada", credentials }],
  ] as const) {
    const { status } = await rest("POST", path, { body });
    if (status >= 300) throw new Error(`${path} was answered with ${status}`);
  }
}

async function callersOf(
  { client }: ProxiedSidecar,
  hosts: FaceWorld["hosts"],
): Promise<Readonly<Record<CallerKind, string>>> {
  const connections = ["here", "based"].map((integration) => ({ integration, id: "ada" }));
  const { token } = await client(AccessSessionService).createAccessSession({
    environment: "dev",
    // A run of 10^5 requests may take more than an hour.
    lifetime: { seconds: 86_400n },
    limits: {
      connections,
      methods: ["GET", "POST", "DELETE"],
      paths: ["/repos/**", "/issues/**", "/b/**", "/v1/**", "/files/*", "/pay", "/pay/**", "/a/**", "/admin/**", "/a"],
      hosts: [hosts.first, hosts.based],
    },
  });
  const { secret } = await client(EnvironmentService).createKey({
    environment: "dev",
    limits: {
      connections,
      methods: ["GET", "HEAD", "POST", "PUT"],
      paths: ["/**"],
      hosts: [hosts.first, hosts.second],
    },
  });
  return { key: secretKey, session: token, "limited key": secret };
}

async function startEdge({ client, control, data }: ProxiedSidecar, allowed: string): Promise<string> {
  const { secret } = await client(EnvironmentService).createKey({ environment: "dev", scopes: [Scope.EDGE] });
  const edge = await startTestEdge({
    brokers: [control],
    files: { "/config": JSON.stringify({ proxy: { overload: { delay: "0s" } } }) },
    env: {
      ...{ LATCHKEY_BROKERS_KEY: secret, LATCHKEY_BROKERS_DATA: data, LATCHKEY_ALLOW_PRIVATE: allowed },
      LATCHKEY_CONFIG: "/config",
    },
  });
  return edge.data;
}

interface TunnelParts {
  readonly forward: string;
  readonly hosts: FaceWorld["hosts"];
  readonly secrets: FaceWorld["secrets"];
}

async function openTunnels(
  running: ProxiedSidecar,
  { forward, hosts, secrets }: TunnelParts,
): Promise<ReadonlyMap<string, string>> {
  const { certificates } = await running.client(AuthorityService).getAuthority({});
  const ca = certificates.map(({ pem }) => pem).join("");
  const opened = new Map<string, string>();
  for (const place of places) {
    for (const caller of callerKinds) {
      for (const protocol of ["http/1.1", "h2"] as const) {
        const authorization = `Bearer ${secrets[caller]}`;
        const options = { proxy: forward, authority: hosts[place], ca, protocol, authorization };
        opened.set(`${place} ${caller} ${protocol}`, await startTunnelPort(options));
      }
    }
  }
  return opened;
}
