import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { Server } from "node:net";
import type { TLSSocket } from "node:tls";
import type { JsonObject } from "@bufbuild/protobuf";
import type { DoorGuard } from "../base/door-guard.ts";
import { errorBody } from "../base/error-body.ts";
import { Fault } from "../base/fault.ts";
import type { ListenerTls } from "../base/listener.ts";
import { faultOfParser, rawAnswer } from "../base/malformed.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import { requireClientName, tlsServerOptions } from "../base/tls.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import { type Access, type Caller, requireScope } from "../broker/access.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import { ClientGone, readJsonBody } from "./body.ts";
import { readQuery } from "./query.ts";
import { createRouter, type Match, patternOf, type Route } from "./routes.ts";

/** A door that speaks HTTP and JSON. */
export interface Door {
  readonly server: Server;
  /** Takes no more; ends when what is under way has been answered. */
  drain(): Promise<void>;
  /** Ends what is still under way. */
  destroy(): void;
}

interface DoorOptions {
  readonly name: "data" | "public";
  readonly routes: readonly Route[];
  readonly access: Access;
  readonly guard: DoorGuard;
  readonly limits: {
    readonly jsonBodyBytes: number;
    readonly headBytes: number;
    readonly headLines: number;
    readonly pathBytes: number;
  };
  readonly tls: ListenerTls | undefined;
  readonly warn: RareWarning;
  readonly world: World;
}

/** A second one of these, and the two halves of a proxy may read different things out of one request. */
const singleHeaders = ["authorization", "host", "content-type", "provider-config-key", "connection-id"];

export function createDoor(options: DoorOptions): Door {
  const { name: door, routes, access, guard, limits, tls, warn, world } = options;
  const { metrics, log } = world;
  const router = createRouter(routes);
  let draining = false;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const since = performance.now();
    metrics.httpOpen.inc({ door });
    let route = "none";
    response.once("close", () => {
      metrics.httpOpen.dec({ door });
      metrics.httpRequests.inc({ door, route, status: String(response.statusCode) });
      metrics.httpSeconds.observe({ door, route }, (performance.now() - since) / 1_000);
    });
    try {
      checkHead(request);
      const { path, query } = targetOf(request);
      if (request.method === "OPTIONS") {
        answerOptions(response, path);
        return;
      }
      const match = router.match(request.method ?? "", path);
      route = patternOf(match);
      await run({ request, response, match, query });
    } catch (error) {
      if (error instanceof ClientGone || response.destroyed) return;
      answerFault({ request, response, fault: faultOfStore(error) });
    }
  }

  function checkHead(request: IncomingMessage): void {
    const { rawHeaders, headers } = request;
    if (rawHeaders.length / 2 > limits.headLines) {
      throw new Fault("headers_too_large", `the head must have at most ${limits.headLines} lines`);
    }
    for (const name of singleHeaders) {
      const count = rawHeaders.filter((one, i) => i % 2 === 0 && one.toLowerCase() === name).length;
      if (count > 1) throw new Fault("duplicate_header", `the header ${name} is there ${count} times`);
    }
    const { host, origin } = headers;
    guard.check({ host, origin, fetchSite: headers["sec-fetch-site"] as string | undefined });
  }

  function targetOf({ url = "", method }: IncomingMessage): { readonly path: string; readonly query: string } {
    if (url === "*" && method === "OPTIONS") return { path: "*", query: "" };
    if (Buffer.byteLength(url) > limits.pathBytes)
      throw new Fault("uri_too_long", `the path must have at most ${limits.pathBytes} bytes`);
    if (!url.startsWith("/")) throw new Fault("invalid_path", "the request must name a path");
    const at = url.indexOf("?");
    return at === -1 ? { path: url, query: "" } : { path: url.slice(0, at), query: url.slice(at + 1) };
  }

  interface Running {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly match: Match;
    readonly query: string;
  }

  async function run({ request, response, match, query: rawQuery }: Running): Promise<void> {
    const { route, params } = match;
    const caller = route.scope === undefined ? undefined : authenticate(request);
    if (caller !== undefined && route.scope !== undefined) requireScope(caller, route.scope);
    const body: JsonObject = route.takesBody === true ? await readJsonBody(request, limits.jsonBodyBytes) : {};
    const query = readQuery(rawQuery);
    const { status, body: answer } = await route.answer({ caller, params, query, body });
    const ignored = query.end();
    if (ignored > 0) metrics.ignoredFields.inc({ route: route.path }, ignored);
    send({ request, response, status, body: answer === undefined ? "" : JSON.stringify(answer) });
  }

  function authenticate({ headers }: IncomingMessage): Caller {
    const { authorization } = headers;
    if (authorization === undefined) throw new Fault("missing_auth_header", "send a key: Authorization: Bearer <key>");
    const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization) ?? [];
    if (secret === undefined)
      throw new Fault("malformed_auth_header", "the Authorization header must be: Bearer <key>");
    return access.authenticate(secret);
  }

  function answerOptions(response: ServerResponse, path: string): void {
    if (path !== "*") response.setHeader("allow", [...router.allowed(path), "OPTIONS"].join(", "));
    response.writeHead(204).end();
  }

  interface Answering {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
  }

  function answerFault({ request, response, fault }: Answering & { readonly fault: Fault }): void {
    if (fault.code === "internal") {
      metrics.unhandled.inc();
      log.error("a request failed unexpectedly", { door, err: fault.cause });
    }
    if (fault.status === 401) response.setHeader("www-authenticate", "Bearer");
    if (fault.metadata["allow"] !== undefined) response.setHeader("allow", fault.metadata["allow"]);
    if (fault.retryAfterSeconds !== undefined) response.setHeader("retry-after", String(fault.retryAfterSeconds));
    response.setHeader("latchkey-error", fault.code);
    send({ request, response, status: fault.status, body: errorBody(fault) });
  }

  function send({
    request,
    response,
    status,
    body,
  }: Answering & { readonly status: number; readonly body: string }): void {
    // What of the request was not read is not waited for: the connection ends with the answer.
    // While we drain, every connection ends with its answer.
    if (!request.complete || draining) response.setHeader("connection", "close");
    response.setHeader("latchkey-version", version);
    response.setHeader("cache-control", "no-store");
    response.setHeader("x-content-type-options", "nosniff");
    response.setHeader("content-type", "application/json; charset=utf-8");
    response.setHeader("content-length", Buffer.byteLength(body));
    response.writeHead(status).end(request.method === "HEAD" ? undefined : body);
  }

  const serverOptions = {
    maxHeaderSize: limits.headBytes,
    headersTimeout: 10_000,
    requestTimeout: 30_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) => void handle(request, response);
  const server =
    tls === undefined
      ? http.createServer(serverOptions, onRequest)
      : https.createServer({ ...serverOptions, ...tlsServerOptions(tls) }, onRequest);
  // Counted by us, and answered 431: Node would leave lines out without a word.
  server.maxHeadersCount = 0;
  if (tls !== undefined) server.on("secureConnection", (socket: TLSSocket) => requireClientName(socket, tls));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const fault = faultOfParser(error);
    metrics.refused.inc({ door, reason: fault.code });
    const { remoteAddress: peer = "unix" } = socket as TLSSocket;
    warn("a peer sent what is not HTTP", { door, peer, reason: fault.code });
    if (socket.writable) socket.end(rawAnswer(fault));
    else socket.destroy();
  });
  return {
    server,
    async drain() {
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      await closed;
    },
    destroy: () => server.closeAllConnections(),
  };
}
