/**
 * Peers that run under Node, their own program: `node proxy-relays.ts KIND CA PORT=ORIGIN…`, where KIND is
 * `http-proxy-3` or `node:http`.
 */
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { createProxyServer } from "http-proxy-3";
import { providerKey } from "./proxy-paths.ts";

const [kind = "", ca = "", ...hops] = process.argv.slice(2);
const keep = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 512 };

for (const hop of hops) {
  const [port = "", origin = ""] = hop.split("=", 2);
  const target = new URL(origin);
  const agent =
    target.protocol === "https:" ? new https.Agent({ ...keep, ca: readFileSync(ca) }) : new http.Agent(keep);
  const handle = kind === "http-proxy-3" ? viaLibrary(target, agent) : byHand(target, agent);
  const server = http.createServer((request, response) => {
    request.url = (request.url ?? "").slice("/proxy".length);
    handle(request, response);
  });
  server.requestTimeout = 0;
  server.keepAliveTimeout = 600_000;
  server.listen({ port: Number(port), host: "127.0.0.1", backlog: 4_096 });
}

function viaLibrary({ origin }: URL, agent: http.Agent): http.RequestListener {
  const proxy = createProxyServer({ target: origin, agent, headers: { "x-api-key": providerKey } });
  proxy.on("error", (_error, _request, response) => response.destroy());
  return (request, response) => void proxy.web(request, response);
}

/** A relay as written by hand without a library: `pipe`, raw fields, an agent that keeps connections. */
function byHand({ protocol, hostname, port }: URL, agent: http.Agent): http.RequestListener {
  const { request: ask } = protocol === "https:" ? https : http;
  return (request, response) => {
    const headers = { ...request.headers, host: `${hostname}:${port}`, "x-api-key": providerKey };
    const out = ask({ hostname, port, agent, method: request.method, path: request.url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    out.on("error", () => response.destroy());
    response.on("close", () => out.destroy());
    if (request.method === "GET") out.end();
    else request.pipe(out);
  };
}
