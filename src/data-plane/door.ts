import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { Server, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { JsonObject } from "@bufbuild/protobuf";
import { type DoorGuard, hostName } from "../base/door-guard.ts";
import { errorBody } from "../base/error-body.ts";
import { Fault, type FaultCode } from "../base/fault.ts";
import { byFieldName, lowerCase } from "../base/field-name.ts";
import { randomId } from "../base/ids.ts";
import type { ListenerTls } from "../base/listener.ts";
import { faultOfParser, isGone, rawAnswer } from "../base/malformed.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import { requireClientName, tlsServerOptions } from "../base/tls.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import { type Access, type Caller, requireScope } from "../broker/access.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import { mistakeInFraming } from "../relay/front.ts";
import { ClientGone, readFormBody, readJsonBody } from "./body.ts";
import type { ConnectSockets } from "./connect-sockets.ts";
import { createDoorCount } from "./door-count.ts";
import { checkBrowser, corsFields, type PageOrigins, preflightFields } from "./page-origin.ts";
import { proxyPrefix } from "./provider-call.ts";
import type { ProviderProxy } from "./proxy.ts";
import { readQuery } from "./query.ts";
import { type Answer, createRouter, type Match, patternOf, type Route } from "./routes.ts";
import { wantsWebSocket } from "./upgrade.ts";

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
  /** Where requests to providers go; the public door has none. */
  readonly proxy?: ProviderProxy;
  /** The connection that every request of this door is for. */
  readonly alias?: ConnectionRef;
  /** The connections that host names stand for. */
  readonly aliases?: ReadonlyMap<string, ConnectionRef>;
  readonly access: Access;
  readonly guard: DoorGuard;
  /** What browsers need, where they may come. */
  readonly pages?: { readonly origins: PageOrigins; readonly sockets: ConnectSockets };
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
/** A tunnel has no end of its own that a drain could wait for: it has ended when it was silent for so long. */
const silentTunnelMs = 1_000;

/** After these nobody knows where the next request begins, or for whom it is: nothing more of the connection is read. */
const untrusted: ReadonlySet<FaultCode> = new Set(["malformed_request", "duplicate_header", "misdirected_request"]);

/** Emitted by a response whose answer is sent though its connection has not ended. */
const answered = Symbol("answered");

/** A second one of these, and the two halves of a proxy may read different things out of one request. */
const singleHeaders = [
  "authorization",
  "base-url-override",
  "connection-id",
  "content-type",
  "host",
  "latchkey-key",
  "provider-config-key",
  "proxy-authorization",
  "retries",
  "retry-on",
];
/** A bit for each of them; none for any other. */
const singleBit = byFieldName((lower) => (1 << (singleHeaders.indexOf(lower) + 1)) & ~1);

export function createDoor(options: DoorOptions): Door {
  const { name: door, routes, proxy, alias, aliases, access, guard, pages, limits, tls, warn, world } = options;
  const { metrics, log } = world;
  const router = createRouter(routes);
  const count = createDoorCount(metrics, door);
  /** By connection: the answer to what was asked last. */
  const lastAnswers = new WeakMap<Duplex, ServerResponse>();
  /** RFC 9112, 9.6: on a connection that is said to end, no further request is processed. */
  const ending = new WeakSet<Duplex>();
  /** The origin of the page that a request came from, where its script may read the answer. */
  const pageOf = new WeakMap<IncomingMessage, string>();
  let draining = false;
  /** What is no more HTTP: the server does not know them any longer. */
  const tunnels = new Set<Socket>();

  /** A caller that is idle is not to keep its last answer in memory, and the request with it: 10 KB each. */
  function forget(response: ServerResponse): void {
    const { socket } = response.req;
    if (response.closed && lastAnswers.get(socket) === response) lastAnswers.delete(socket);
  }

  async function handle({ request, response, proceed }: Asked): Promise<void> {
    const since = performance.now();
    count.begin();
    let route = "none";
    const onAnswered = () => {
      response.off("close", onAnswered).off(answered, onAnswered);
      forget(response);
      count.end({ route, status: response.statusCode, since });
    };
    response.once("close", onAnswered).once(answered, onAnswered);
    let found: Match | undefined;
    try {
      checkHead(request, pages === undefined ? undefined : browserAt(request));
      const { path, query } = targetOf(request);
      if (request.method === "OPTIONS" && !router.takesAny(path)) {
        answerOptions(request, response, path);
        return;
      }
      found = router.match(request.method ?? "", path);
      route = patternOf(found);
      await run({ request, response, proceed, match: found, query });
    } catch (error) {
      if (error instanceof ClientGone || response.destroyed) return;
      const { faultPage } = found?.route ?? {};
      answerFault({ request, response, fault: faultOfStore(error), ...(faultPage && { faultPage }) });
    }
  }

  /** Whether pages of others may use what is there; a browser asks before it sends what no form could. */
  function browserAt({ method = "", url = "", headers }: IncomingMessage): Route["browser"] {
    const [path = ""] = url.split("?", 1);
    const asksFor = headers["access-control-request-method"];
    const isPreflight = method === "OPTIONS" && typeof asksFor === "string";
    const browser = router.find(isPreflight ? asksFor : method, path)?.route.browser;
    return isPreflight && browser !== "script" ? undefined : browser;
  }

  function checkHead(request: IncomingMessage, browser?: Route["browser"]): void {
    const { rawHeaders, headers, method = "" } = request;
    const framing = mistakeInFraming(request);
    if (framing !== undefined) throw new Fault("malformed_request", framing);
    if (rawHeaders.length / 2 > limits.headLines) {
      throw new Fault("headers_too_large", `the head must have at most ${limits.headLines} lines`);
    }
    let seen = 0;
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? "";
      const bit = singleBit(name);
      if ((seen & bit) !== 0) {
        throw new Fault("duplicate_header", `the header ${lowerCase(name)} is there more than once`);
      }
      seen |= bit;
    }
    const { host, origin } = headers;
    // RFC 9112, 3.2.
    if (host === undefined && request.httpVersion === "1.1") {
      throw new Fault("malformed_request", "the request must have a Host header");
    }
    const fetchSite = headers["sec-fetch-site"] as string | undefined;
    if (isInAbsoluteForm(request)) guard.checkPage({ origin, fetchSite });
    else if (browser === undefined || pages === undefined) guard.check({ host, origin, fetchSite });
    else {
      guard.checkHost(host);
      const shownTo = checkBrowser(browser, { method, headers }, pages.origins);
      if (shownTo !== undefined) pageOf.set(request, shownTo);
    }
  }

  function aliasOf({ headers }: IncomingMessage): ConnectionRef | undefined {
    if (alias !== undefined || aliases === undefined || aliases.size === 0) return alias;
    return aliases.get(hostName(headers.host ?? "") ?? "");
  }

  function isForProvider(request: IncomingMessage): boolean {
    if (proxy === undefined) return false;
    return aliasOf(request) !== undefined || isUnderProxy(request) || isInAbsoluteForm(request);
  }

  /** To the provider, without a promise on the way. */
  function toProvider(to: ProviderProxy, { request, response, proceed }: Asked): void {
    const since = performance.now();
    count.begin();
    let isIn = false;
    // Not `once`: it comes once anyway, and needs no wrapper that is taken off again.
    response.on("close", () => {
      forget(response);
      if (isIn) to.left();
      count.end({ route: providerRoute, status: response.statusCode, since });
    });
    const answer = (fault: Fault) => answerFault({ request, response, fault });
    try {
      checkProviderHead(request);
      isIn = to.handle({ request, response, proceed, answerFault: answer, ...aliased(request) });
    } catch (error) {
      answer(faultOfStore(error));
    }
  }

  /** The same for what goes on as a tunnel. */
  function toTunnel(to: ProviderProxy, { request, response, socket, early }: Upgrading): void {
    count.begin();
    let isIn = false;
    tunnels.add(socket);
    socket.once("close", () => {
      tunnels.delete(socket);
      if (isIn) to.left();
      count.end({ route: providerRoute, status: response.statusCode, since: undefined });
    });
    const answer = (fault: Fault) => answerFault({ request, response, fault });
    try {
      checkProviderHead(request);
      if (draining)
        throw new Fault("not_ready", "latchkey is stopping, and opens nothing that would have to end with it");
      isIn = to.upgrade({ request, socket, early, response, answerFault: answer, ...aliased(request) });
    } catch (error) {
      answer(faultOfStore(error));
    }
  }

  /** A page that is going to wait for what comes of an authorization. */
  const isForPage = (request: IncomingMessage): boolean =>
    pages !== undefined && !isForProvider(request) && /^\/(?:\?|$)/.test(request.url ?? "");

  function toPage({ request, response, socket, early }: Upgrading): void {
    count.begin();
    tunnels.add(socket);
    socket.once("close", () => {
      tunnels.delete(socket);
      count.end({ route: "/", status: response.statusCode, since: undefined });
    });
    try {
      if (pages === undefined || draining) throw new Fault("not_ready", "latchkey is stopping");
      checkHead(request, "script");
      pages.sockets.join(request, socket, early);
      response.statusCode = 101;
      response.detachSocket(socket);
    } catch (error) {
      answerFault({ request, response, fault: faultOfStore(error) });
    }
  }

  function checkProviderHead(request: IncomingMessage): void {
    checkHead(request);
    if (Buffer.byteLength(request.url ?? "") > limits.pathBytes) {
      throw new Fault("uri_too_long", `the path must have at most ${limits.pathBytes} bytes`);
    }
  }

  function aliased(request: IncomingMessage): { readonly alias?: ConnectionRef } {
    const named = aliasOf(request);
    return named === undefined ? {} : { alias: named };
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
    const body: JsonObject =
      route.takesBody === true
        ? await readJsonBody(request, reading)
        : route.takesBody === "form"
          ? await readFormBody(request, reading)
          : {};
    const query = readQuery(rawQuery);
    const { headers } = request;
    const answer = await route.answer({ caller, params, query, rawQuery, body, headers });
    const ignored = query.end();
    if (ignored > 0) metrics.ignoredFields.inc({ route: route.path }, ignored);
    sendAnswer({ request, response, answer });
  }

  function sendAnswer({ request, response, answer }: Answering & { readonly answer: Answer }): void {
    const { status, body, headers = {} } = answer;
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    const isText = headers["content-type"] !== undefined && typeof body === "string";
    send({ request, response, status, body: body === undefined ? "" : isText ? body : JSON.stringify(body) });
  }

  function authenticate({ headers }: IncomingMessage): Caller {
    const { authorization } = headers;
    if (authorization === undefined) throw new Fault("missing_auth_header", "send a key: Authorization: Bearer <key>");
    const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization) ?? [];
    if (secret === undefined)
      throw new Fault("malformed_auth_header", "the Authorization header must be: Bearer <key>");
    return access.authenticate(secret);
  }

  function answerOptions(request: IncomingMessage, response: ServerResponse, path: string): void {
    const allowed = path === "*" ? [] : [...router.allowed(path), "OPTIONS"];
    const page = pageOf.get(request);
    if (page !== undefined) {
      const fields = { ...corsFields(page), ...preflightFields(allowed) };
      for (const [name, value] of Object.entries(fields)) response.setHeader(name, value);
    }
    if (path !== "*") response.setHeader("allow", allowed.join(", "));
    response.setHeader("latchkey-version", version);
    response.writeHead(204).end();
  }

  interface Answering {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
  }

  interface AnsweringFault extends Answering {
    readonly fault: Fault;
    readonly faultPage?: (fault: Fault) => Answer;
  }

  function answerFault({ request, response, fault: found, faultPage }: AnsweringFault): void {
    const fault = found.code === "internal" ? logged(found) : found;
    if (untrusted.has(fault.code)) ending.add(request.socket);
    if (fault.status === 401) response.setHeader("www-authenticate", "Bearer");
    if (fault.metadata["allow"] !== undefined) response.setHeader("allow", fault.metadata["allow"]);
    if (fault.retryAfterSeconds !== undefined) response.setHeader("retry-after", String(fault.retryAfterSeconds));
    response.setHeader("latchkey-error", fault.code);
    // Not even that we know the page: it is no page of the environment that it asked about.
    if (fault.code === "origin_not_allowed") pageOf.delete(request);
    if (faultPage !== undefined) sendAnswer({ request, response, answer: faultPage(fault) });
    else send({ request, response, status: fault.status, body: errorBody(fault) });
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
    const isCutOff = !request.complete && (ending.has(request.socket) ? hasBody(request) : !isSoonRead(request));
    // While we drain, every connection ends with its answer.
    if (draining || isCutOff) ending.add(request.socket);
    if (ending.has(request.socket)) response.setHeader("connection", "close");
    response.setHeader("latchkey-version", version);
    response.setHeader("cache-control", "no-store");
    response.setHeader("x-content-type-options", "nosniff");
    if (!response.hasHeader("content-type")) response.setHeader("content-type", "application/json; charset=utf-8");
    const page = pageOf.get(request);
    if (page !== undefined)
      for (const [name, value] of Object.entries(corsFields(page))) response.setHeader(name, value);
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
    // A body that goes on to a provider may take as long as it takes; what reads one itself sets its own limit.
    requestTimeout: proxy === undefined ? 30_000 : 0,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
    // What has no body needs no stream to be read: 1 µs less.
    optimizeEmptyRequests: true,
    // Asked for by us, so that the answer is one of ours.
    requireHostHeader: false,
    // Any other upgrade is answered as if nobody had asked for it, or refused by the proxy.
    shouldUpgradeCallback: (request: IncomingMessage) =>
      wantsWebSocket(request) && (isForProvider(request) || isForPage(request)),
  };
  /** Connections that have not asked for anything yet. */
  const silent = new Set<Socket>();
  const onAsked = (asked: Asked) => {
    const { socket } = asked.request;
    silent.delete(socket);
    if (ending.has(socket)) return;
    lastAnswers.set(socket, asked.response);
    if (proxy !== undefined && isForProvider(asked.request)) toProvider(proxy, asked);
    else void handle(asked);
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) =>
    onAsked({ request, response, proceed: () => {} });
  const server =
    tls === undefined
      ? http.createServer(serverOptions, onRequest)
      : https.createServer({ ...serverOptions, ...tlsServerOptions(tls) }, onRequest);
  // Counted by us, and answered 431: Node would leave lines out without a word.
  server.maxHeadersCount = 0;
  if (tls !== undefined) server.on("secureConnection", (socket: TLSSocket) => requireClientName(socket, tls));
  server.on(tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
    silent.add(socket);
    socket.once("close", () => silent.delete(socket));
  });
  // A caller that asks first is told to go on once its head has been judged, so that no body is sent in vain.
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    onAsked({ request, response, proceed: () => response.writeContinue() });
  });
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    if (ending.has(request.socket)) return;
    lastAnswers.set(request.socket, response);
    const fault = new Fault("invalid_headers", "the only expectation that can be met is 100-continue");
    answerFault({ request, response, fault });
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket, early: Buffer) => {
    silent.delete(socket);
    const response = responseOver(socket, request);
    if (response === undefined) return;
    if (isForPage(request)) toPage({ request, response, socket, early });
    else if (proxy !== undefined) toTunnel(proxy, { request, response, socket, early });
  });
  server.on("connect", (request: IncomingMessage, socket: Socket) => {
    const response = responseOver(socket, request);
    if (response === undefined) return;
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
    // It has its answer, or will have it, and that is the last one.
    if (ending.has(socket)) return;
    ending.add(socket);
    const fault = faultOfParser(error);
    metrics.refused.inc({ door, reason: fault.code });
    const { remoteAddress: peer = "unix" } = socket as TLSSocket;
    // Who ends before the end of its request has changed its mind, and says nothing wrong.
    if (error.code !== "HPE_INVALID_EOF_STATE") {
      warn("a peer sent what is not HTTP", { door, peer, reason: fault.code });
    }
    refuse(socket, fault);
  });

  /** For an answer on a connection that the server has given away, and that ends with it. */
  function responseOver(socket: Socket, request: IncomingMessage): ServerResponse | undefined {
    socket.on("error", () => socket.destroy());
    // What was asked before it on the same connection has no answer yet, and now nobody keeps the two apart.
    if (ending.has(socket) || lastAnswers.get(socket)?.closed === false) {
      socket.destroy();
      return undefined;
    }
    const response = new http.ServerResponse(request);
    response.assignSocket(socket);
    response.once("finish", () => endSoon(socket));
    response.setHeader("connection", "close");
    return response;
  }

  /** Answers what never became a request, in its turn: behind the answers to what came before it. */
  function refuse(socket: Duplex, fault: Fault): void {
    const last = lastAnswers.get(socket);
    const end = () => endSoon(socket, rawAnswer(fault));
    if (last === undefined || last.closed) end();
    else if (last.req.complete) last.once("close", end);
    // A body that makes no sense: its own answer, unless that has begun, or others are due before it.
    else if (last.socket !== null && !last.headersSent) end();
    else socket.destroy();
  }

  return {
    server,
    async drain() {
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      // Clients open spare connections: one that has never asked anything is not idle in Node's eyes.
      for (const socket of silent) socket.destroy();
      pages?.sockets.close();
      for (const socket of tunnels) socket.setTimeout(silentTunnelMs);
      await closed;
    },
    destroy() {
      server.closeAllConnections();
      for (const socket of tunnels) socket.destroy();
    },
  };
}

/** Ends a connection of which nothing more is read, and gives the peer the time to take what was said. */
function endSoon(socket: Duplex, text = ""): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(text);
  const cut = setTimeout(() => socket.destroy(), cutAfterMs);
  socket.once("close", () => clearTimeout(cut));
}

const providerRoute = `${proxyPrefix}/*`;
const isUnderProxy = ({ url = "" }: IncomingMessage): boolean => url.startsWith(`${proxyPrefix}/`);
const isInAbsoluteForm = ({ url = "" }: IncomingMessage): boolean => /^https?:\/\//i.test(url);

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Tells a caller that waits for it (`Expect: 100-continue`) to send the body. */
  readonly proceed: () => void;
}

interface Upgrading {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** What came behind the head of the request. */
  readonly early: Buffer;
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;

/** Whether what is left of a request is so little that it costs less to drop it than to connect again. */
function isSoonRead({ headers }: IncomingMessage): boolean {
  // Who was not told to go on may leave the body out: what comes next may be it, or another request.
  if (headers.expect !== undefined || headers["transfer-encoding"] !== undefined) return false;
  return Number(headers["content-length"] ?? 0) <= droppedBytes;
}
