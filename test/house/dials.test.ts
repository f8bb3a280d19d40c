import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const src = fileURLToPath(new URL("../../src", import.meta.url));

/** Modules whose functions open connections. */
const dialer =
  /^import (?!type\b)([^;]+?) from "(?:node:(?:net|tls|https?|http2|dgram|quic)|pg|ws|@connectrpc\/connect-node|undici)";/gms;
/** Functions and classes of these modules that do. Others listen, or are data. */
const opening =
  /^(?:connect|createConnection|request|get|createSocket|Pool|Client|WebSocket|createGrpcTransport|createConnectTransport|createGrpcWebTransport|Http2SessionManager|ProxyAgent|fetch)$/;

/** Returns whether a file can open a connection by itself. */
function opensConnections(code: string): boolean {
  if (/(?<![.\w#])fetch\(/.test(code)) return true;
  return [...code.matchAll(dialer)].some(([statement, names = ""]) => {
    const rest = code.replace(statement, "");
    const [, whole] = /^(\w+)/.exec(names) ?? [];
    // Also where the module itself is a value: `(isSecure ? https : http).request(`.
    const isUsed =
      whole !== undefined &&
      new RegExp(
        `\\b${whole}\\.(?:connect|createConnection|request|get|createSocket)\\(|[?:=(] *${whole}\\b(?!\\.|:|\\?)`,
      ).test(rest);
    const named = /\{(.*)\}/s.exec(names)?.[1]?.split(",") ?? [];
    return isUsed || named.some((name) => !/^\s*type /.test(name) && opening.test(name.trim().split(" as ")[0] ?? ""));
  });
}

/** Every file that opens connections, and where they lead. Another one has to go through `relay/dial.ts`. */
const known: Readonly<Record<string, string>> = {
  "cli/commands/run/local-port.ts": "to the forward proxy",
  "relay/dialing.ts": "the direct way of `dial`",
  "relay/egress-proxy/egress-proxy.ts": "to the egress proxy",
  "relay/egress-proxy/proxied-dial.ts": "TLS inside a connection through the egress proxy",
  "tracing/collector.ts": "to the collector; over a socket of `dial` if the egress proxy covers it",
  "data-plane/proxy/request-sender.ts": "to the proxy of this process, in memory",
  "edge/follow-stream.ts": "to brokers",
  "edge/broker-relay.ts": "to brokers",
  "store/postgres/client.ts": "to PostgreSQL",
  "store/postgres/connections.ts": "to PostgreSQL",
  "store/level/lock.ts": "to another process on this machine",
  "base/http/listener.ts": "to a listener of this machine",
  "base/node/first-goaway.ts": "over a socket in memory",
  "base/node/loopback-trial.ts": "to this process",
  "cli/control.ts": "of the command line, to Latchkey",
  "cli/data/data-request.ts": "of the command line, to Latchkey",
  "cli/commands/overview/network-checks.ts": "of the command line, to Latchkey and the application",
  "cli/terminal/wrong-address.ts": "of the command line, to Latchkey",
  "cli/terminal/paging.ts": "none: a page of a list",
  "dev/sandbox/apis/address-checks.ts": "of the sandbox",
  "dev/sandbox/apis/channel-notifier.ts": "of the sandbox",
  "dev/sandbox/page/overview.ts": "of a page in the browser",
  "broker/identities/issuer-keys.ts": "none: a function that is given",
};

const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !/^(?:gen|dashboard|scripts\/guest)\//.test(file),
);
const codeOf = (file: string) =>
  readFileSync(join(src, file), "utf8")
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/(?<!:)\/\/.*$/gm, "");

it("opens connections only where the egress proxy is known, or where it does not belong", () => {
  expect(files.filter((file) => opensConnections(codeOf(file))).toSorted()).toEqual(Object.keys(known).toSorted());
});

it("dials providers, applications and key sets in one place", () => {
  const users = files.filter((file) => /\bcreateUpstream\(|\bopenSocket\(/.test(codeOf(file)));
  const withoutProxy = users.filter((file) => !file.startsWith("relay/") && !/\bproxy\b/.test(codeOf(file)));
  expect(users.length).toBeGreaterThanOrEqual(3);
  expect(withoutProxy).toEqual([]);
});
