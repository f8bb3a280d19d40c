import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import { Fault } from "../base/fault.ts";
import { html } from "../base/html.ts";
import type { ConnectionLimit } from "../base/http/connection-limit.ts";
import { type DoorGuard, isAddress } from "../base/http/door-guard.ts";
import { createFramingGuard, guardExpectations } from "../base/http/framing-guard.ts";
import type { ListenerTls } from "../base/http/listener.ts";
import { requireClientName, tlsServerOptions } from "../base/http/tls.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import type { Readiness } from "../base/readiness.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import type { Door } from "./server/door.ts";

interface OpsOptions {
  readonly readiness: Readiness;
  /** Returns why the process is impaired; undefined when nothing is wrong. */
  readonly trouble: () => string | undefined;
  /** Returns what operators should know of a process that is ready. */
  readonly notice?: () => string | undefined;
  readonly tls: ListenerTls | undefined;
  /** Host names under which `/metrics` is served. */
  readonly guard: DoorGuard;
  readonly warn: RareWarning;
  /** Undefined: no limit. */
  readonly connections?: ConnectionLimit | undefined;
  readonly world: World;
}

const door = "ops";

/** Probes and metrics, for the kubelet and Prometheus: nothing here needs a key, and nothing here is secret. */
export function createOpsDoor({
  readiness,
  trouble,
  notice,
  tls,
  guard,
  warn,
  connections,
  world,
}: OpsOptions): Pick<Door, "server" | "drain" | "destroy"> {
  // A process that answers is alive: a restart cannot repair other components.
  const alive = () => ({ status: 200, text: "ok\n" });
  const pages: Readonly<Record<string, (request: IncomingMessage) => OpsPage | Promise<OpsPage>>> = {
    "/": opsIndex,
    "/livez": alive,
    "/healthz": alive,
    "/startupz": () =>
      readiness.phase() === "starting"
        ? { status: 503, text: `${["starting", trouble()].filter(Boolean).join(": ")}\n` }
        : { status: 200, text: "ok\n" },
    "/readyz": () => {
      const phase = readiness.phase();
      const reason = phase === "ready" ? trouble() : [phase, trouble()].filter(Boolean).join(": ");
      if (reason !== undefined) return { status: 503, text: `${reason}\n` };
      return { status: 200, text: `${["ok", notice?.()].filter(Boolean).join(": ")}\n` };
    },
    "/metrics": async (request) => {
      const fault = faultOfHead(request);
      if (fault !== undefined) return { status: fault.status, text: `${fault.message}\n` };
      const { contentType, text } = await world.metrics.exposition();
      return { status: 200, text, contentType };
    },
  };

  /**
   * A page with a DNS name rebound to this machine could read metrics. Probes only tell that a process runs, and the
   * kubelet and load balancers use any host name; Prometheus uses the pod's address.
   */
  function faultOfHead({ headers, socket }: IncomingMessage): Fault | undefined {
    const { host = "", origin, "sec-fetch-site": site } = headers;
    const fetchSite = Array.isArray(site) ? site[0] : site;
    try {
      if (!isAddress(host)) guard.checkHost(host);
      guard.checkPage({ origin, fetchSite });
      return undefined;
    } catch (error) {
      const fault = Fault.from(error);
      world.metrics.refused.inc({ door, reason: fault.code });
      warn("request refused", { door, peer: socket.remoteAddress ?? "unix", reason: fault.code });
      return fault;
    }
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = ""] = (request.url ?? "").split("?");
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) response.setHeader("allow", "GET, HEAD");
    const found =
      page === undefined
        ? { status: 404, text: "not found\n" }
        : isRead
          ? await page(request)
          : { status: 405, text: "method not allowed\n" };
    const { status, text, contentType = "text/plain; charset=utf-8" } = found as OpsPage;
    response.setHeader("content-type", contentType);
    response.setHeader("content-length", Buffer.byteLength(text));
    response.setHeader("cache-control", "no-store");
    if (contentType.startsWith("text/html"))
      response.setHeader("content-security-policy", "default-src 'none'; frame-ancestors 'none'");
    response.writeHead(status).end(request.method === "HEAD" ? undefined : text);
  }

  const isFramed = createFramingGuard(({ code: reason }, { remoteAddress: peer = "unix" }) => {
    world.metrics.refused.inc({ door, reason });
    warn("a client sent invalid HTTP", { door, peer, reason });
  });
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    if (!isFramed(request, response)) return;
    answer(request, response).catch((err: unknown) => {
      world.metrics.unhandled.inc();
      world.log.error("a probe failed unexpectedly", { err });
      response.destroy();
    });
  };
  const server = createServer(tls, onRequest);
  guardExpectations(server, isFramed);
  if (connections !== undefined) limitTo(server, connections);
  return {
    server,
    drain: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
    destroy: () => server.closeAllConnections(),
  };
}

const timeouts = { headersTimeout: 10_000, requestTimeout: 10_000, connectionsCheckingInterval: 1_000 };

function createServer(tls: ListenerTls | undefined, onRequest: http.RequestListener): http.Server {
  if (tls === undefined) return http.createServer(timeouts, onRequest);
  const server = https.createServer({ ...timeouts, ...tlsServerOptions(tls) }, onRequest);
  return server.on("secureConnection", (socket) => requireClientName(socket, tls));
}

/** When the limit is reached, idle connections are closed for new ones. */
function limitTo(server: http.Server, connections: ConnectionLimit): void {
  server.maxConnections = connections.max;
  server.on("connection", connections.count);
  server.on("drop", () => {
    server.closeIdleConnections();
    connections.refused("door");
  });
}

interface OpsPage {
  readonly status: number;
  readonly text: string;
  readonly contentType?: string;
}

const indexed: Readonly<Record<string, string>> = {
  "/livez": "the process answers (also /healthz)",
  "/readyz": "the process can serve requests; if not, says why",
  "/startupz": "Latchkey has started",
  "/metrics": "metrics in the Prometheus format",
};

/** Lists the paths: as JSON for a program that accepts it, else as a page. */
function opsIndex({ headers }: IncomingMessage): OpsPage {
  if (/application\/json/i.test(headers.accept ?? "")) {
    return {
      status: 200,
      text: `${JSON.stringify({ name: "latchkey", version, paths: indexed })}\n`,
      contentType: "application/json",
    };
  }
  const rows = Object.entries(indexed).map(
    ([path, meaning]) => html`<li><a href="${path}">${path}</a>: ${meaning}</li>`,
  );
  const { html: text } = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Latchkey</title></head>
<body><h1>Latchkey ${version}</h1><ul>${rows}</ul></body></html>
`;
  return { status: 200, text, contentType: "text/html; charset=utf-8" };
}
