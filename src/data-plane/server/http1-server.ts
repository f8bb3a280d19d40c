import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Fault } from "../../base/fault.ts";
import type { IdleSince } from "../../base/http/drain-listener.ts";
import { mistakeInHttp1 } from "../../base/http/framing.ts";
import { IdleConnections } from "../../base/http/idle-connections.ts";
import { faultOfParser, isGone } from "../../base/http/malformed.ts";
import { startInjection } from "../../base/node/injected-sockets.ts";
import { wantsWebSocket } from "../proxy/websocket/upgrade.ts";
import type { DoorAnswers } from "./answers.ts";
import type { DoorCall, UpgradeRequest } from "./door-call.ts";
import type { ConnectCall } from "./forward-traffic.ts";
import type { RefusalLog } from "./refusal-log.ts";
import type { DoorSockets } from "./sockets.ts";
import { unmetExpectation } from "./streams.ts";

/** HTTP/1.1 on the general path: Node's server, which never listens itself and is given connections. */
export interface Http1Server {
  serve(socket: Socket): void;
  /** Answers bytes that are no request, by the code of Node's parser. */
  refuse(socket: Socket, code: string): void;
  closeIdle(since: IdleSince): void;
  destroy(): void;
}

export interface Http1ServerOptions {
  readonly maxHeadBytes: number;
  /** 0: no limit, since a body for a provider may take any time. */
  readonly requestTimeoutMs: number;
  /** Whether a connection is better closed after many ordinary requests on this slow path. */
  readonly hasFastPath: boolean;
  readonly isLeaving: () => boolean;
  readonly sockets: DoorSockets;
  readonly answers: Pick<DoorAnswers, "fault">;
  readonly refusals: Pick<RefusalLog, "count" | "peer">;
  readonly onRequest: (call: DoorCall) => void;
  /** Undefined: `CONNECT` is refused. */
  readonly onConnect?: ((call: Pick<ConnectCall, "request" | "socket" | "early">) => void) | undefined;
  /** Returns what opens a requested WebSocket; undefined: the request is answered as a plain one. */
  readonly upgradeFor: (request: IncomingMessage) => ((call: UpgradeRequest) => void) | undefined;
}

/** This many requests on the general path cost a few times as much extra as a new connection. */
const slowRequests = 100;

export function createHttp1Server(options: Http1ServerOptions): Http1Server {
  const { maxHeadBytes, requestTimeoutMs, isLeaving, sockets, answers, refusals, onRequest, upgradeFor } = options;
  const server = http.createServer({
    maxHeaderSize: maxHeadBytes,
    headersTimeout: 10_000,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 60_000,
    // Requests without a body need no stream: saves 1 µs.
    optimizeEmptyRequests: true,
    // Checked by Latchkey, which sends its own error.
    requireHostHeader: false,
    // Other upgrades are answered as plain requests, or refused by the proxy.
    shouldUpgradeCallback: (request: IncomingMessage) => wantsWebSocket(request) && upgradeFor(request) !== undefined,
  });
  // This server never listens itself.
  const inject = startInjection(server);
  // Latchkey counts headers and answers 431: Node would drop headers silently.
  server.maxHeadersCount = 0;
  const idle = new IdleConnections();
  const countSlow = options.hasFastPath ? createSlowCount(sockets) : undefined;

  function begin(request: IncomingMessage, response: ServerResponse, proceed: () => void): void {
    if (!sockets.begin(response)) return;
    const { socket } = request;
    idle.begun(socket);
    response.once("close", () => idle.answered(socket));
    if (isLeaving()) response.shouldKeepAlive = false;
    else countSlow?.(response);
    onRequest({ request, response, proceed });
  }

  server.on("request", (request, response) => begin(request, response, noProceed));
  // `100 Continue` is sent only after the head was checked, so that no body is sent uselessly.
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    begin(request, response, () => response.writeContinue());
  });
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    if (!sockets.begin(response)) return;
    const mistake = mistakeInHttp1(request);
    const fault = mistake === undefined ? unmetExpectation() : new Fault("malformed_request", mistake);
    answers.fault({ request, response }, fault);
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket, early: Buffer) => {
    idle.forget(socket);
    const response = sockets.responseOver(socket, request);
    if (response !== undefined) upgradeFor(request)?.({ request, response, socket, early });
  });
  server.on("connect", (request: IncomingMessage, socket: Socket, early: Buffer) => {
    idle.forget(socket);
    if (options.onConnect !== undefined) {
      if (sockets.isEnding(socket)) socket.destroy();
      else options.onConnect({ request, socket, early });
      return;
    }
    const response = sockets.responseOver(socket, request);
    if (response === undefined) return;
    const fault = noConnectMethod();
    refusals.count(fault);
    answers.fault({ request, response }, fault);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // The client has gone or was cut off in a request: no response, no warning.
    if (isGone(error)) {
      socket.destroy();
      return;
    }
    idle.forget(socket as Socket);
    // The connection already has its last response.
    if (sockets.isEnding(socket)) return;
    sockets.end(socket);
    const fault = faultOfParser(error);
    // A client that closes before the end of its request has canceled; that is no error.
    if (error.code === "HPE_INVALID_EOF_STATE") refusals.count(fault);
    else refusals.peer("a client sent invalid HTTP", fault, (socket as Socket).remoteAddress);
    sockets.refuse(socket, fault);
  });

  return {
    serve(socket) {
      idle.add(socket);
      inject(socket);
    },
    refuse: (socket, code) => void server.emit("clientError", Object.assign(new Error(code), { code }), socket),
    closeIdle: (since) => idle.close(since),
    // Until then, it ends heads and requests that take too long.
    destroy: () => void server.close(),
  };
}

/**
 * Returns a function to call for each response. One unusual request moves its connection to the general path. If many
 * ordinary requests follow, a new connection is worth its cost: the old one is closed with a response, as any may be.
 */
function createSlowCount(sockets: Pick<DoorSockets, "end">): (response: ServerResponse) => void {
  /** Requests left for a connection on the general path; connections on the fast path have no limit. */
  const left = new WeakMap<Socket, number>();
  return (response) => {
    const { socket } = response.req;
    const requests = (left.get(socket) ?? slowRequests) - 1;
    left.set(socket, requests);
    if (requests > 0) return;
    sockets.end(socket);
    response.shouldKeepAlive = false;
  };
}

const noProceed = () => {};

function noConnectMethod(): Fault {
  const allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
  return new Fault("method_not_allowed", "CONNECT is not supported", { metadata: { allow } });
}
