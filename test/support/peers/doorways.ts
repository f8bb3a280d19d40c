import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import type { HarnessOptions } from "../sidecar/harness.ts";
import { type ProxiedSidecar, startProxied } from "./provider.ts";
import { startTunnelPort } from "./tunnel-port.ts";

/** A way by which requests come to a provider, for tests that are the same for all of them. */
export interface Doorway {
  readonly name: DoorwayName;
  /** A port without TLS that takes HTTP/1.1. */
  readonly address: string;
  /** The same for HTTP/2; undefined: the way has none. */
  readonly http2Address: string | undefined;
  /** Returns the target that names a path of the provider. */
  target(path: string): string;
  /** Value of the Host field. */
  readonly host: string;
  /** Fields with the caller's key and connection, where requests carry them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The same as lines. */
  readonly lines: string;
}

export type DoorwayName = "/proxy" | "alias" | "absolute form" | "tunnel";

export interface DoorwaySidecar extends ProxiedSidecar {
  readonly doorways: Readonly<Record<DoorwayName, Doorway>>;
  /** Address of the forward proxy. */
  readonly proxy: string;
}

/** A slow machine refuses no request. */
const unhurried = { proxy: { overload: { delay: "0s" } } };

type ProxiedOptions = NonNullable<Parameters<typeof startProxied>[1]>;

/** Starts a sidecar before the provider on this port, which all doorways lead to. */
export async function startDoorways(port: number, options: ProxiedOptions = {}): Promise<DoorwaySidecar> {
  const alias = { name: "ada", environment: "dev", integration: "here", connection: "ada", listen: "127.0.0.1:0" };
  const config = JSON.parse(options.files?.["/config"] ?? "{}");
  const more: HarnessOptions = {
    files: { ...options.files, "/config": JSON.stringify({ ...unhurried, ...config, aliases: [alias] }) },
    env: { LATCHKEY_CONFIG: "/config", LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0", ...options.env },
  };
  const running = await startProxied(port, { ...options, ...more });
  const { data, proxyHeaders, sidecar } = running;
  const authority = `127.0.0.1:${port}`;
  const { certificates } = await running.client(AuthorityService).getAuthority({});
  const proxy = sidecar.addresses.forwardProxy ?? "";
  const tunnel = { proxy, authority, ca: certificates.map(({ pem }) => pem).join("") };
  const { authorization = "" } = proxyHeaders;
  const all: readonly Omit<Doorway, "lines">[] = [
    {
      ...{ name: "/proxy", address: data, http2Address: data, host: "localhost", headers: proxyHeaders },
      target: (path) => `/proxy${path}`,
    },
    {
      ...{ name: "alias", address: sidecar.aliases["ada"] ?? "", host: "localhost", headers: { authorization } },
      http2Address: sidecar.aliases["ada"],
      target: (path) => path,
    },
    {
      ...{ name: "absolute form", address: data, http2Address: undefined, host: authority, headers: proxyHeaders },
      target: (path) => `http://${authority}${path}`,
    },
    {
      ...{ name: "tunnel", address: await startTunnelPort({ ...tunnel, protocol: "http/1.1" }), host: authority },
      ...{ http2Address: await startTunnelPort({ ...tunnel, protocol: "h2" }), headers: {} },
      target: (path) => path,
    },
  ];
  const doorways = Object.fromEntries(
    all.map((one): [string, Doorway] => [
      one.name,
      {
        ...one,
        lines: Object.entries(one.headers)
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join(""),
      },
    ]),
  ) as Record<DoorwayName, Doorway>;
  return { ...running, doorways, proxy };
}
