import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { ConnectionLimit } from "../../base/http/connection-limit.ts";
import { type DoorGuard, hostName } from "../../base/http/door-guard.ts";
import type { ListenerTls } from "../../base/http/listener.ts";
import { faultOfParser, isGone } from "../../base/http/malformed.ts";
import { createTwoProtocols } from "../../base/http/two-protocols.ts";
import { startInjection } from "../../base/node/injected-sockets.ts";
import { sharedSocketOf } from "../../base/node/shared-socket.ts";
import type { RareWarning } from "../../base/rare-warning.ts";
import type { World } from "../../base/world.ts";
import type { Access } from "../../broker/setup/access.ts";
import { type Caller, requireScope } from "../../broker/setup/caller.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { isGrpc } from "../../core/outgoing/grpc.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Clients } from "../../relay/client/clients.ts";
import {
  bodyOf,
  type FrontHead,
  type FrontRequest,
  type FrontResponse,
  isStream,
} from "../../relay/client/incoming.ts";
import type { RequestHead } from "../../relay/http1/request-head.ts";
import type { ConnectSockets } from "../api/connect-sockets.ts";
import { navigationOf } from "../api/navigation.ts";
import type { PageOrigins } from "../api/page-origin.ts";
import { createFastPath } from "../fast-path/fast-path.ts";
import { proxyPrefix } from "../proxy/provider-call.ts";
import type { ProviderProxy } from "../proxy/proxy.ts";
import { wantsWebSocket } from "../proxy/upgrade.ts";
import { answered, createDoorAnswers } from "./answers.ts";
import { ClientGone, readFormBody, readJsonBody, readReceived } from "./body.ts";
import { createBodyRoom } from "./body-room.ts";
import { createHeadCheck, isInAbsoluteForm } from "./heads.ts";
import { readQuery } from "./query.ts";
import { createDoorCount } from "./request-count.ts";
import { createRouter, type Match, patternOf, type Route } from "./routes.ts";
import { createDoorSockets } from "./sockets.ts";
import { createDoorStreams, unmetExpectation } from "./streams.ts";

/** A listener for HTTP and JSON. */
export interface Door {
  readonly server: Server;
  /**
   * Accepts connections, but closes each one with its next response: clients that reconnect reach another instance.
   */
  leave(): void;
  /** Accepts no more connections; resolves when the requests in progress have been answered. */
  drain(): Promise<void>;
  /** Ends requests without an end of their own: tunnels with a Close frame, event streams by a cut. */
  endStreams(): void;
  /** Destroys what is still in progress. */
  destroy(): void;
}

interface DoorOptions {
  readonly name: "data" | "public";
  readonly routes: readonly Route[];
  /** Routes that come and go with the customer's scripts. */
  readonly otherRoutes?: (path: string) => readonly Route[];
  /** Handles requests to providers; the public listener has none. */
  readonly proxy?: ProviderProxy;
  /** The connection for every request of this listener. */
  readonly alias?: ConnectionRef;
  /** Connections by host name. */
  readonly aliases?: ReadonlyMap<string, ConnectionRef>;
  readonly access: Access;
  readonly guard: DoorGuard;
  /** Page support, on listeners that browsers may use. */
  readonly pages?: { readonly origins: PageOrigins; readonly sockets: ConnectSockets };
  readonly limits: {
    readonly jsonBodyBytes: number;
    readonly webhookBodyBytes: number;
    readonly headBytes: number;
    readonly headLines: number;
    readonly pathBytes: number;
  };
  readonly tls: ListenerTls | undefined;
  /** Ordinary requests to providers skip `node:http`; not over TLS. */
  readonly hasFastLane?: boolean;
  /** On the fast path, client connections share one read buffer. */
  readonly sharesReads?: boolean;
  /** Limits how long an HTTP/2 client may read nothing of a complete response. */
  readonly stallMs?: number;
  /** Undefined: no limit. */
  readonly connections?: ConnectionLimit | undefined;
  readonly warn: RareWarning;
  readonly world: World;
}

const defaultStallMs = 60_000;
/** A tunnel has no end that a drain could wait for: it ends after this long without data. */
const silentTunnelMs = 1_000;
/** Node closes connections that are idle at `close`; this repeats it for those that become idle later. */
const closeIdleEveryMs = 100;
/** This many requests on the general path cost a few times as much extra as a new connection. */
const slowRequests = 100;
/** Limits webhook bodies in memory: a dozen of the largest, or thousands of usual ones. */
const maxBodiesBytes = 64 * 1024 * 1024;

export function createDoor(options: DoorOptions): Door {
  const { name: door, routes, proxy, alias, aliases, access, guard, pages, limits, tls, warn, world } = options;
  const { stallMs = defaultStallMs, hasFastLane = false, sharesReads = false } = options;
  const { metrics } = world;
  const router = createRouter(routes, options.otherRoutes);
  const count = createDoorCount(metrics, door);
  let leaving = false;
  let draining = false;
  const isLast = () => leaving;
  const lines = createDoorSockets();
  const answers = createDoorAnswers({ door, lines, isDraining: isLast, world });
  const head = createHeadCheck({ guard, origins: pages?.origins, limits });
  const room = createBodyRoom(maxBodiesBytes);
  /**
   * Connections that are no longer HTTP, unknown to the server. The value is the function that closes an open tunnel.
   */
  const tunnels = new Map<Socket, () => void>();
  /** Responses without end, which are destroyed on shutdown. */
  const endless = new Set<{ destroy(): unknown }>();
  const onEndless = (response: FrontResponse) => void endless.add(response);

  async function handle({ request, response, proceed }: DoorCall): Promise<void> {
    const since = performance.now();
    count.begin();
    let route = "none";
    const onAnswered = () => {
      response.off("close", onAnswered).off(answered, onAnswered);
      lines.forget(response);
      count.end({ route, status: response.statusCode, since });
    };
    response.once("close", onAnswered).once(answered, onAnswered);
    let found: Match | undefined;
    try {
      const page = head.check(request, pages === undefined ? undefined : browserAt(request));
      if (page !== undefined) answers.showTo(request, page);
      const { path, query } = head.targetOf(request);
      if (request.method === "OPTIONS" && !router.takesAny(path)) {
        answers.options({ request, response }, path === "*" ? undefined : [...router.allowed(path), "OPTIONS"]);
        return;
      }
      found = router.match(request.method ?? "", path);
      route = patternOf(found);
      await run({ request, response, proceed, match: found, query });
    } catch (error) {
      if (error instanceof ClientGone || response.destroyed) return;
      const fault = faultOfStore(error);
      noteOrigin(request, fault);
      answers.fault({ request, response }, fault, found?.route.faultPage);
    }
  }

  /**
   * Returns whether other sites' pages may use the route. Browsers send a preflight before a request that no form
   * could send.
   */
  function browserAt({ method = "", url = "", headers }: FrontRequest): Route["browser"] {
    const [path = ""] = url.split("?", 1);
    const asksFor = headers["access-control-request-method"];
    const isPreflight = method === "OPTIONS" && typeof asksFor === "string";
    const browser = router.find(isPreflight ? asksFor : method, path)?.route.browser;
    return isPreflight && browser !== "script" ? undefined : browser;
  }

  function aliasOf({ headers }: FrontHead): ConnectionRef | undefined {
    if (alias !== undefined || aliases === undefined || aliases.size === 0) return alias;
    return aliases.get(hostName(headers.host ?? "") ?? "");
  }

  function isForProvider(request: FrontRequest): boolean {
    if (proxy === undefined) return false;
    if (aliasOf(request) !== undefined || isUnderProxy(request) || isInAbsoluteForm(request)) return true;
    // No other route takes gRPC calls, and gRPC clients cannot set a path prefix.
    return isStream(request) && isGrpc(request.headers["content-type"]);
  }

  /** Sends a request to the provider, without a promise. */
  function toProvider(to: ProviderProxy, { request, response, proceed }: DoorCall): void {
    const since = performance.now();
    count.begin();
    let isIn = false;
    // `on`, not `once`: the event comes once anyway, and `once` costs a wrapper.
    response.on("close", () => {
      lines.forget(response);
      if (isIn) to.left();
      endless.delete(response);
      count.end({ route: providerRoute, status: response.statusCode, since });
    });
    const answer = (fault: Fault) => answers.fault({ request, response }, fault);
    try {
      head.checkForProvider(request);
      isIn = to.handle({ request, response, proceed, answerFault: answer, isLast, onEndless, ...aliased(request) });
    } catch (error) {
      answer(faultOfStore(error));
    }
  }

  /** Sends a request for a tunnel to the provider. */
  function toTunnel(to: ProviderProxy, { request, response, socket, early }: UpgradeRequest): void {
    count.begin();
    let isIn = false;
    tunnels.set(socket, () => socket.destroy());
    socket.once("close", () => {
      tunnels.delete(socket);
      if (isIn) to.left();
      count.end({ route: providerRoute, status: response.statusCode, since: undefined });
    });
    const answer = (fault: Fault) => answers.fault({ request, response }, fault);
    try {
      head.checkForProvider(request);
      if (draining)
        throw new Fault("not_ready", "latchkey is stopping, and opens nothing that would have to end with it");
      const onTunnel = (sayGoodbye: () => void) => void tunnels.set(socket, sayGoodbye);
      isIn = to.upgrade({ request, socket, early, response, answerFault: answer, onTunnel, ...aliased(request) });
    } catch (error) {
      answer(faultOfStore(error));
    }
  }

  /** Returns whether a page asks for a WebSocket to wait for an authorization. */
  const isForPage = (request: FrontRequest): boolean =>
    pages !== undefined && !isForProvider(request) && /^\/(?:\?|$)/.test(request.url ?? "");

  function toPage({ request, response, socket, early }: UpgradeRequest): void {
    count.begin();
    tunnels.set(socket, () => socket.destroy());
    socket.once("close", () => {
      tunnels.delete(socket);
      count.end({ route: "/", status: response.statusCode, since: undefined });
    });
    try {
      if (pages === undefined || draining) throw new Fault("not_ready", "latchkey is stopping");
      const page = head.check(request, "script");
      if (page !== undefined) answers.showTo(request, page);
      pages.sockets.join(request, socket, early);
      response.statusCode = 101;
      response.detachSocket(socket);
    } catch (error) {
      const fault = faultOfStore(error);
      noteOrigin(request, fault);
      if (pages === undefined || !isPageRefused(request, fault)) {
        answers.fault({ request, response }, fault);
        return;
      }
      // Pages cannot see the response to a handshake: the frontend SDK would wait forever.
      response.statusCode = fault.status;
      response.detachSocket(socket);
      pages.sockets.refuse(request, socket, { early, message: refusalOfPage(request, fault) });
    }
  }

  /** Logs the origin of a refused page, for an operator who forgot to allow it. */
  function noteOrigin({ headers, socket }: FrontRequest, { code, metadata }: Fault): void {
    const origin = metadata["origin"] ?? headers.origin;
    if (code !== "origin_not_allowed" || origin === undefined || pages === undefined) return;
    const environment = metadata["environment"] ?? pages.origins.environments().join(", ");
    metrics.refused.inc({ door, reason: code });
    const { remoteAddress: peer = "unix" } = socket;
    const about = { door, peer, reason: code, origin: origin.slice(0, 200), environment: environment.slice(0, 500) };
    warn("a page was refused whose origin is not among the allowed_origins of the environment", about);
  }

  function aliased(request: FrontRequest): { readonly alias?: ConnectionRef } {
    const named = aliasOf(request);
    return named === undefined ? {} : { alias: named };
  }

  interface Running extends DoorCall {
    readonly match: Match;
    readonly query: string;
  }

  async function run({ request, response, proceed, match, query: rawQuery }: Running): Promise<void> {
    const { route, params } = match;
    const reading = { maxBytes: limits.jsonBodyBytes, proceed };
    const caller = route.scope === undefined ? undefined : await authenticate(request);
    if (caller !== undefined && route.scope !== undefined) requireScope(caller, route.scope);
    await route.admit?.(params);
    const body: JsonObject =
      route.takesBody === true || (route.takesBody === "optional" && bodyOf(request) !== "none")
        ? await readJsonBody(request, reading)
        : route.takesBody === "form"
          ? await readFormBody(request, reading)
          : {};
    const received =
      route.takesBody === "raw"
        ? await readReceived(request, { query: rawQuery, maxBytes: limits.webhookBodyBytes, proceed, room })
        : undefined;
    const query = readQuery(rawQuery);
    const { headers, url: target = "" } = request;
    const asked = { caller, params, query, rawQuery, target, body, received, headers };
    const answer = await Promise.resolve(route.answer(asked)).finally(() => room.give(received?.body.length ?? 0));
    const ignored = received === undefined ? query.end() : 0;
    if (ignored > 0) metrics.ignoredFields.inc({ route: route.path }, ignored);
    answers.answer({ request, response }, answer);
  }

  function authenticate({ headers }: FrontRequest): Caller | Promise<Caller> {
    const { authorization } = headers;
    if (authorization === undefined) throw new Fault("missing_auth_header", "send a key: Authorization: Bearer <key>");
    const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization) ?? [];
    if (secret === undefined)
      throw new Fault("malformed_auth_header", "the Authorization header must be: Bearer <key>");
    return access.authenticate(secret);
  }

  const serverOptions = {
    maxHeaderSize: limits.headBytes,
    headersTimeout: 10_000,
    // A body for a provider may take any time; routes that read a body set their own limit.
    requestTimeout: proxy === undefined ? 30_000 : 0,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
    // Requests without a body need no stream: saves 1 µs.
    optimizeEmptyRequests: true,
    // Checked by Latchkey, which sends its own error.
    requireHostHeader: false,
    // Other upgrades are answered as plain requests, or refused by the proxy.
    shouldUpgradeCallback: (request: IncomingMessage) =>
      wantsWebSocket(request) && (isForProvider(request) || isForPage(request)),
  };
  /** Connections that have not sent a request yet. */
  const silent = new Set<Socket>();
  /** Requests left for a connection on the general path; connections on the fast path have no limit. */
  const left = new WeakMap<Socket, number>();
  /**
   * One unusual request moves its connection to the general path. If many ordinary requests follow, a new connection
   * is worth its cost: the old one is closed with a response, as any may be.
   */
  function endSlowLine(response: ServerResponse): void {
    if (fastLane === undefined) return;
    const { socket } = response.req;
    const requests = (left.get(socket) ?? slowRequests) - 1;
    left.set(socket, requests);
    if (requests > 0) return;
    lines.end(socket);
    response.shouldKeepAlive = false;
  }
  const onAsked = (asked: DoorCall) => {
    if (proxy !== undefined && isForProvider(asked.request)) toProvider(proxy, asked);
    else void handle(asked);
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse, proceed = () => {}) => {
    silent.delete(request.socket);
    if (!lines.begin(response)) return;
    if (leaving) response.shouldKeepAlive = false;
    else endSlowLine(response);
    onAsked({ request, response, proceed });
  };
  const server = http.createServer(serverOptions, (request, response) => onRequest(request, response));
  // This server never listens itself.
  const inject = startInjection(server);
  // Latchkey counts headers and answers 431: Node would drop headers silently.
  server.maxHeadersCount = 0;
  function serveHttp1(socket: Socket): void {
    silent.add(socket);
    socket.once("close", () => silent.delete(socket));
    inject(socket);
  }
  // `100 Continue` is sent only after the head was checked, so that no body is sent uselessly.
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    onRequest(request, response, () => response.writeContinue());
  });
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    if (lines.begin(response)) answers.fault({ request, response }, unmetExpectation());
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket, early: Buffer) => {
    silent.delete(socket);
    const response = lines.responseOver(socket, request);
    if (response === undefined) return;
    if (isForPage(request)) toPage({ request, response, socket, early });
    else if (proxy !== undefined) toTunnel(proxy, { request, response, socket, early });
  });
  server.on("connect", (request: IncomingMessage, socket: Socket) => {
    const response = lines.responseOver(socket, request);
    if (response === undefined) return;
    const allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    const fault = new Fault("method_not_allowed", "this door opens no tunnels", { metadata: { allow } });
    metrics.refused.inc({ door, reason: fault.code });
    answers.fault({ request, response }, fault);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // The client has gone or was cut off in a request: no response, no warning.
    if (isGone(error)) {
      socket.destroy();
      return;
    }
    // The connection already has its last response.
    if (lines.isEnding(socket)) return;
    lines.end(socket);
    const fault = faultOfParser(error);
    metrics.refused.inc({ door, reason: fault.code });
    const { remoteAddress: peer = "unix" } = socket as TLSSocket;
    // A client that closes before the end of its request has canceled; that is no error.
    if (error.code !== "HPE_INVALID_EOF_STATE") {
      warn("a client sent invalid HTTP", { door, peer, reason: fault.code });
    }
    lines.refuse(socket, fault);
  });

  const rowFor = rowsAsTheyCome(routes);
  const fastLane: Clients | undefined =
    (proxy === undefined && rowFor === undefined) || tls !== undefined || !hasFastLane
      ? undefined
      : createFastPath({
          proxy,
          receiving: {
            rowFor: rowFor ?? (() => undefined),
            maxBytes: limits.webhookBodyBytes,
            ...{ count, room, textOf: answers.textOf, textOfAnswer: answers.textOfAnswer },
          },
          check: head.checkForProvider,
          aliasOf,
          count,
          textOf: answers.textOf,
          endless,
          handOver(socket, isHttp1) {
            metrics.proxyHandedOver.inc();
            if (isHttp1) serveHttp1(socket);
            else both.tell(socket);
          },
          refuse: (socket, code) => server.emit("clientError", Object.assign(new Error(code), { code }), socket),
        });

  const streams = createDoorStreams({
    maxHeadBytes: limits.headBytes,
    maxHeadLines: limits.headLines,
    stallMs,
    onRequest: onAsked,
    fail: (asked, fault) => answers.fault(asked, fault),
    refuse: (fault, peer) => refuse("a client violated HTTP/2", fault, peer),
  });
  const both = createTwoProtocols({
    tls,
    // Same as Node's own HTTP/1.1 server.
    socketOptions: { noDelay: true, allowHalfOpen: tls === undefined },
    limit: options.connections,
    ...(fastLane === undefined ? {} : { serveFirst: fastLane.open }),
    ...(fastLane === undefined || !sharesReads ? {} : { replaceSocket: sharedSocketOf }),
    serveHttp1,
    serveHttp2: streams.serve,
    refuse: (fault, { remoteAddress }) => refuse("a client did not complete the TLS handshake", fault, remoteAddress),
  });

  function refuse(message: string, { code: reason }: Fault, peer = "unix"): void {
    metrics.refused.inc({ door, reason });
    warn(message, { door, peer, reason });
  }

  return {
    server: both.server,
    leave() {
      leaving = true;
      fastLane?.leave();
      streams.leave();
    },
    async drain() {
      leaving = true;
      draining = true;
      const closed = new Promise<void>((resolve) => both.server.close(() => resolve()));
      fastLane?.drain();
      streams.drain();
      both.dropUndecided();
      server.close();
      server.closeIdleConnections();
      // Clients open spare connections: Node does not count a connection without requests as idle.
      for (const socket of silent) socket.destroy();
      pages?.sockets.close();
      for (const [socket, sayGoodbye] of tunnels) {
        socket.removeAllListeners("timeout").setTimeout(silentTunnelMs, sayGoodbye);
      }
      // Responses that began before the drain did not announce the close.
      const sweep = setInterval(() => server.closeIdleConnections(), closeIdleEveryMs);
      await closed;
      clearInterval(sweep);
      streams.destroy();
    },
    endStreams() {
      for (const sayGoodbye of tunnels.values()) sayGoodbye();
      // Cut, so as not to look complete.
      for (const response of endless) response.destroy();
    },
    destroy() {
      streams.destroy();
      fastLane?.destroy();
      // Also destroys tunnels.
      both.destroy();
    },
  };
}

/** Returns the lookup of routes with raw bodies; undefined: there are none. */
function rowsAsTheyCome(routes: readonly Route[]) {
  const rows = routes.filter(({ takesBody }) => takesBody === "raw");
  const prefixes = rows.map(({ path }) => path.slice(0, path.indexOf(":")));
  if (rows.length === 0) return undefined;
  const router = createRouter(rows);
  return ({ method, url }: RequestHead): Match | undefined => {
    if (!prefixes.some((prefix) => url.startsWith(prefix))) return undefined;
    const [path = ""] = url.split("?", 1);
    return router.find(method, path);
  };
}

const providerRoute = `${proxyPrefix}/*`;
const isUnderProxy = ({ url = "" }: FrontRequest): boolean => url.startsWith(`${proxyPrefix}/`);
interface DoorCall {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** Tells a caller that waits for it (`Expect: 100-continue`) to send the body. */
  readonly proceed: () => void;
}

interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** Bytes that followed the head of the request. */
  readonly early: Buffer;
}

/** Programs can read the status of a handshake; pages cannot. */
const isPageRefused = (request: FrontRequest, { code }: Fault): boolean =>
  code === "origin_not_allowed" && navigationOf(request.headers).isBrowser;

const refusalOfPage = ({ headers: { origin = "" } }: FrontRequest, { code }: Fault) => ({
  message_type: "error" as const,
  provider_config_key: "",
  connection_id: "",
  error_type: code,
  error_desc: `pages of ${origin.slice(0, 200)} are not let in: add this origin to the allowed_origins of the environment`,
});
