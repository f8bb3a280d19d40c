import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { Server, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { JsonObject } from "@bufbuild/protobuf";
import type { DoorGuard } from "../base/door-guard.ts";
import { errorBody } from "../base/error-body.ts";
import { Fault } from "../base/fault.ts";
import { randomId } from "../base/ids.ts";
import type { ListenerTls } from "../base/listener.ts";
import { faultOfParser, isGone, rawAnswer } from "../base/malformed.ts";
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

/** A body this small lies in the socket's buffer already: it is dropped, and the connection goes on. */
const droppedBytes = 64 * 1024;
/**
 * Over a body that is not read the connection is cut off, but not before the caller had the time to take the answer:
 * a reset would overtake it, and the caller would know that it was refused and not why.
 */
const cutAfterMs = 1_000;

/** Emitted by a response whose answer is sent though its connection has not ended. */
const answered = Symbol("answered");

/** A second one of these, and the two halves of a proxy may read different things out of one request. */
const singleHeaders = ["authorization", "host", "content-type", "provider-config-key", "connection-id"];

export function createDoor(options: DoorOptions): Door {
  const { name: door, routes, access, guard, limits, tls, warn, world } = options;
  const { metrics, log } = world;
  const router = createRouter(routes);
  let draining = false;

  async function handle({ request, response, proceed }: Asked): Promise<void> {
    const since = performance.now();
    metrics.httpOpen.inc({ door });
    let route = "none";
    const onAnswered = () => {
      response.off("close", onAnswered).off(answered, onAnswered);
      metrics.httpOpen.dec({ door });
      metrics.httpRequests.inc({ door, route, status: String(response.statusCode) });
      metrics.httpSeconds.observe({ door, route }, (performance.now() - since) / 1_000);
    };
    response.once("close", onAnswered).once(answered, onAnswered);
    try {
      checkHead(request);
      const { path, query } = targetOf(request);
      if (request.method === "OPTIONS" && !router.takesAny(path)) {
        answerOptions(response, path);
        return;
      }
      const match = router.match(request.method ?? "", path);
      route = patternOf(match);
      await run({ request, response, proceed, match, query });
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

  interface Running extends Asked {
    readonly match: Match;
    readonly query: string;
  }

  async function run({ request, response, proceed, match, query: rawQuery }: Running): Promise<void> {
    const { route, params } = match;
    const reading = { maxBytes: limits.jsonBodyBytes, proceed };
    const caller = route.scope === undefined ? undefined : authenticate(request);
    if (caller !== undefined && route.scope !== undefined) requireScope(caller, route.scope);
    const body: JsonObject = route.takesBody === true ? await readJsonBody(request, reading) : {};
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
    response.setHeader("latchkey-version", version);
    response.writeHead(204).end();
  }

  interface Answering {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
  }

  function answerFault({ request, response, fault: found }: Answering & { readonly fault: Fault }): void {
    const fault = found.code === "internal" ? logged(found) : found;
    if (fault.status === 401) response.setHeader("www-authenticate", "Bearer");
    if (fault.metadata["allow"] !== undefined) response.setHeader("allow", fault.metadata["allow"]);
    if (fault.retryAfterSeconds !== undefined) response.setHeader("retry-after", String(fault.retryAfterSeconds));
    response.setHeader("latchkey-error", fault.code);
    send({ request, response, status: fault.status, body: errorBody(fault) });
  }

  /** What we did not foresee says nothing to the caller but where its log is found. */
  function logged({ cause }: Fault): Fault {
    const id = randomId();
    metrics.unhandled.inc();
    log.error("a request failed unexpectedly", { door, log_id: id, err: cause });
    return new Fault("internal", `internal error; the log has it as ${id}`);
  }

  function send({
    request,
    response,
    status,
    body,
  }: Answering & { readonly status: number; readonly body: string }): void {
    // What of the request was not read is not waited for: the connection ends with the answer.
    const isCutOff = !request.complete && !isSoonRead(request);
    // While we drain, every connection ends with its answer.
    if (draining || isCutOff) response.setHeader("connection", "close");
    response.setHeader("latchkey-version", version);
    response.setHeader("cache-control", "no-store");
    response.setHeader("x-content-type-options", "nosniff");
    response.setHeader("content-type", "application/json; charset=utf-8");
    response.setHeader("content-length", Buffer.byteLength(body));
    response.writeHead(status);
    const sent = request.method === "HEAD" ? "" : body;
    if (!isCutOff) {
      response.end(sent);
      return;
    }
    response.flushHeaders();
    response.write(sent);
    response.emit(answered);
    const cut = setTimeout(() => response.end(), cutAfterMs);
    response.once("close", () => clearTimeout(cut));
  }

  const serverOptions = {
    maxHeaderSize: limits.headBytes,
    headersTimeout: 10_000,
    requestTimeout: 30_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) =>
    void handle({ request, response, proceed: () => {} });
  const server =
    tls === undefined
      ? http.createServer(serverOptions, onRequest)
      : https.createServer({ ...serverOptions, ...tlsServerOptions(tls) }, onRequest);
  // Counted by us, and answered 431: Node would leave lines out without a word.
  server.maxHeadersCount = 0;
  if (tls !== undefined) server.on("secureConnection", (socket: TLSSocket) => requireClientName(socket, tls));
  // A caller that asks first is told to go on once its head has been judged, so that no body is sent in vain.
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    void handle({ request, response, proceed: () => response.writeContinue() });
  });
  server.on("connect", (request: IncomingMessage, socket: Socket) => {
    socket.on("error", () => socket.destroy());
    const response = new http.ServerResponse(request);
    response.assignSocket(socket);
    response.once("finish", () => socket.end());
    response.setHeader("connection", "close");
    const allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    const fault = new Fault("method_not_allowed", "this door opens no tunnels", { metadata: { allow } });
    metrics.refused.inc({ door, reason: fault.code });
    answerFault({ request, response, fault });
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // Gone, or cut off in mid-request: there is nobody to answer, and nothing to warn of.
    if (isGone(error)) {
      socket.destroy();
      return;
    }
    const fault = faultOfParser(error);
    metrics.refused.inc({ door, reason: fault.code });
    const { remoteAddress: peer = "unix" } = socket as TLSSocket;
    // Who ends before the end of its request has changed its mind, and says nothing wrong.
    if (error.code !== "HPE_INVALID_EOF_STATE") {
      warn("a peer sent what is not HTTP", { door, peer, reason: fault.code });
    }
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

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Tells a caller that waits for it (`Expect: 100-continue`) to send the body. */
  readonly proceed: () => void;
}

/** Whether what is left of a request is so little that it costs less to drop it than to connect again. */
function isSoonRead({ headers }: IncomingMessage): boolean {
  // Who was not told to go on may leave the body out: what comes next may be it, or another request.
  if (headers.expect !== undefined || headers["transfer-encoding"] !== undefined) return false;
  return Number(headers["content-length"] ?? 0) <= droppedBytes;
}
