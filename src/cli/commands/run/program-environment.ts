import { delimiter } from "node:path";
import { type BrowserProgram, chromiumFlags } from "./chromium-flags.ts";
import { trustStorePassword } from "./java-trust-store.ts";
import type { ProgramFiles } from "./program-files.ts";

export interface ProxiedProgram extends BrowserProgram {
  /** `http://user:key@host:port` of the forward proxy. */
  readonly proxyUrl: string;
  readonly files: ProgramFiles;
  /** Folder of scripts that start browsers; undefined: there are none. */
  readonly launchers: string | undefined;
}

/** Hosts that are reached without the proxy: this machine. */
const direct = ["localhost", "127.0.0.1", "::1"];

/** Variables by which programs find their file of authorities: OpenSSL, Node, Python, pip, npm, git, curl, AWS, gRPC. */
const bundleVariables = [
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "PIP_CERT",
  // Wins over a `cafile` of the user's own npm configuration.
  "npm_config_cafile",
  "GIT_SSL_CAINFO",
  "CURL_CA_BUNDLE",
  "AWS_CA_BUNDLE",
  "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

type Environment = Readonly<Record<string, string | undefined>>;

/** Returns the environment of a program that reaches providers through the forward proxy. */
export function programEnvironment(env: Environment, program: ProxiedProgram): Record<string, string> {
  const { proxyUrl, files, localPort, launchers } = program;
  const own = Object.entries(env).flatMap(([name, value]) =>
    value === undefined || isOurs(name) || isOfNpm(name) ? [] : [[name, value]],
  );
  const proxies = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"].map((name) => [name, proxyUrl]);
  const exceptions = ["NO_PROXY", "no_proxy"].map((name) => [name, direct.join(",")]);
  /** The program's own options stay. */
  const added = (name: string, options: readonly string[]) => [name, [env[name] ?? "", ...options].join(" ").trim()];
  return Object.fromEntries([
    ...own,
    ...proxies,
    ...exceptions,
    ...bundleVariables.map((name) => [name, files.bundle]),
    // Node's own fetch reads the variables of the proxy only with this one.
    ["NODE_USE_ENV_PROXY", "1"],
    added("NODE_OPTIONS", [`--require ${JSON.stringify(files.nodeAgents)}`]),
    added("JAVA_TOOL_OPTIONS", javaOptions(program)),
    ...(localPort === undefined ? [] : [added("CHROMIUM_FLAGS", chromiumFlags(program, localPort))]),
    ...(launchers === undefined ? [] : [["PATH", [launchers, env["PATH"] ?? ""].join(delimiter)]]),
  ]);
}

/** The program must not get the key that this command was called with. */
const isOurs = (name: string): boolean => /^LATCHKEY_(?:KEY|ADMIN_KEY|SECRET_KEY|SEAL_KEYS)(?:_FILE)?$/.test(name);

/** npm takes these variables in any case, and before those of the proxy. */
const isOfNpm = (name: string): boolean => /^npm_config_(?:ca|cafile|proxy|https?_proxy|noproxy)$/i.test(name);

/** Java sends no key of its own to a proxy, so it is given the port that needs none. */
function javaOptions({ files: { trustStore }, localPort }: ProxiedProgram): string[] {
  const trust = [
    `-Djavax.net.ssl.trustStore=${trustStore}`,
    "-Djavax.net.ssl.trustStoreType=JKS",
    `-Djavax.net.ssl.trustStorePassword=${trustStorePassword}`,
    // Programs with an Authenticator of their own: Java sends Basic to no proxy for tunnels by default.
    "-Djdk.http.auth.tunneling.disabledSchemes=",
  ];
  if (localPort === undefined) return trust;
  const { host, port } = localPort;
  return [
    ...trust,
    `-Dhttps.proxyHost=${host}`,
    `-Dhttps.proxyPort=${port}`,
    "-Dhttp.nonProxyHosts=localhost|127.*|[::1]",
  ];
}
