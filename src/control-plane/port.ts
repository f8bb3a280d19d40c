import http from "node:http";
import http2 from "node:http2";
import net, { type Server, type Socket } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import type { DoorGuard } from "../base/door-guard.ts";
import { errorBody } from "../base/error-body.ts";
import { Fault } from "../base/fault.ts";
import type { ListenerTls } from "../base/listener.ts";
import { faultOfParser, isGone, rawAnswer } from "../base/malformed.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import { requireClientName, tlsServerOptions } from "../base/tls.ts";
import type { World } from "../base/world.ts";
import { type Calls, createCalls, type Handlers, leaveUnread, type NodeRequest } from "./calls.ts";
import { limitControlFrames } from "./control-frames.ts";
import type { NodeResponse } from "./reader.ts";
import { sniff } from "./sniff.ts";

/** The control plane's port: gRPC, gRPC-Web and Connect together, over HTTP/1.1 and HTTP/2, plain or TLS. */
export interface ControlPort {
  readonly server: Server;
  /** What answers from now on. Until then everything is answered `not_ready`. */
  serve(handlers: Handlers): void;
  /** Takes what comes, and has callers come anew for what they ask next: they are led to another instance. */
  leave(): void;
  /** Takes no more; ends when what is under way has ended. */
  drain(): Promise<void>;
  /** Ends what is still under way. */
  destroy(): void;
}

export interface ControlPortOptions {
  readonly guard: DoorGuard;
  readonly maxMessageBytes: number;
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  readonly tls: ListenerTls | undefined;
  readonly warn: RareWarning;
  readonly world: World;
  /** So long may a reader take nothing of its answer. */
  readonly stallMs?: number;
}

const door = "control";
const defaultStallMs = 60_000;
/** A peer that opens a session and no stream is let go after this, one that has nothing more to say after that. */
const firstStreamMs = 60_000;
const idleMs = 300_000;

/** A peer that is gone without a word is noticed by the system. */
const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };
/** A second one of these, and whoever stands before us may have read another one than we. */
const singleHeaders = ["authorization", "host", "content-type"];

export function createControlPort(options: ControlPortOptions): ControlPort {
  const {
    guard,
    maxMessageBytes,
    maxHeadBytes,
    maxHeadLines,
    tls: pair,
    warn,
    world,
    stallMs = defaultStallMs,
  } = options;
  let calls: Calls = () => new Fault("not_ready", "latchkey is starting");
  let leaving = false;
  let draining = false;

  function refuse(fault: Fault, { message, peer }: { readonly message: string; readonly peer: string }): void {
    world.metrics.refused.inc({ door, reason: fault.code });
    warn(message, { door, peer, reason: fault.code });
  }

  function handle(request: NodeRequest, response: NodeResponse): void {
    try {
      checkHead(request, { guard, maxHeadLines });
    } catch (error) {
      const fault = Fault.from(error);
      refuse(fault, { message: "a request was turned away", peer: peerOf(request.socket) });
      answer({ request, response, fault });
      return;
    }
    const fault = calls(request, response);
    if (fault !== undefined) answer({ request, response, fault });
  }

  /** All, of HTTP/1.1, of HTTP/1.1 with a request to answer, and those that have not said yet what they speak. */
  const sockets = new Set<Socket>();
  const ofHttp1 = new Set<Socket>();
  const busy = new Set<Socket>();
  const undecided = new Set<Socket>();

  const http1 = http.createServer(
    { maxHeaderSize: maxHeadBytes, headersTimeout: 10_000, requestTimeout: 0, connectionsCheckingInterval: 1_000 },
    (request, response) => {
      // Once it is to stop, every connection ends with its answer.
      if (leaving) response.setHeader("connection", "close");
      busy.add(request.socket);
      response.once("close", () => {
        busy.delete(request.socket);
        if (draining) request.socket.end();
      });
      handle(request, response);
    },
  );
  // It never listens itself, and only from then on does Node look after heads that do not come to their end.
  http1.emit("listening");
  // Counted by us, and answered 431: Node would leave lines out without a word.
  http1.maxHeadersCount = 0;
  http1.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (isGone(error)) {
      socket.destroy();
      return;
    }
    const fault = faultOfParser(error);
    refuse(fault, { message: "a peer sent what is not HTTP", peer: peerOf(socket as Socket) });
    if (socket.writable) socket.end(rawAnswer(fault));
    else socket.destroy();
  });

  function serveHttp1(socket: Socket): void {
    ofHttp1.add(socket);
    socket.once("close", () => ofHttp1.delete(socket));
    http1.emit("connection", socket);
  }

  const sessions = new Set<http2.ServerHttp2Session>();
  const plain2 = http2.createServer(
    {
      maxSessionMemory: 10,
      settings: { maxConcurrentStreams: 100, maxHeaderListSize: maxHeadBytes },
      maxHeaderListPairs: maxHeadLines,
    },
    handle,
  );
  plain2.on("session", (session) => {
    const peer = peerOf(session.socket as Socket);
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.on("error", (error: NodeJS.ErrnoException) => {
      session.destroy();
      if (isGone(error)) return;
      refuse(new Fault("malformed_request", error.message), { message: "a peer broke the rules of HTTP/2", peer });
    });
    session.setTimeout(firstStreamMs, () => session.close());
    session.once("stream", () => session.setTimeout(idleMs));
    let isTold = false;
    session.on("stream", () => {
      if (!leaving || isTold) return;
      isTold = true;
      sayLeaving(session);
    });
    limitControlFrames(session, () => {
      session.destroy(new Error("too many PING and SETTINGS frames"), http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
    if (draining) session.close();
  });

  function createPlain(): Server {
    return net.createServer(socketOptions, (socket) => {
      undecided.add(socket);
      socket.once("close", () => undecided.delete(socket));
      sniff(socket, (protocol, sniffed) => {
        undecided.delete(socket);
        if (protocol === "h2") plain2.emit("connection", sniffed);
        else serveHttp1(sniffed);
      });
    });
  }

  function createTls(given: ListenerTls): Server {
    const tlsOptions = { ...socketOptions, ...tlsServerOptions(given), ALPNProtocols: ["h2", "http/1.1"] };
    const secure = tls.createServer(tlsOptions, (socket) => {
      requireClientName(socket, given);
      if (socket.destroyed) return;
      if (socket.alpnProtocol === "h2") plain2.emit("connection", socket);
      else serveHttp1(socket);
    });
    secure.on("tlsClientError", (error: NodeJS.ErrnoException, socket: TLSSocket) => {
      if (isGone(error)) return;
      const fault = new Fault("malformed_request", "not TLS, or without a certificate that is taken here");
      refuse(fault, { message: "a peer did not complete the TLS handshake", peer: peerOf(socket) });
    });
    return secure;
  }

  const server = pair === undefined ? createPlain() : createTls(pair);
  server.on("connection", (socket: Socket) => {
    // Node forgets the address of a peer that has left, unless it was asked before.
    void socket.remoteAddress;
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  return {
    server,
    leave() {
      leaving = true;
    },
    serve(handlers) {
      calls = createCalls({ ...handlers, maxMessageBytes, stallMs, world });
    },
    async drain() {
      leaving = true;
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      http1.close();
      for (const session of sessions) session.close();
      // Where nothing was asked, nothing is to be waited for.
      for (const socket of [...undecided, ...ofHttp1]) if (!busy.has(socket)) socket.destroy();
      await closed;
    },
    destroy() {
      for (const session of sessions) session.destroy();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The highest stream that there can be: whatever is on its way is served, and nothing more is asked here (RFC 9113, 6.8). */
const everyStream = 2 ** 31 - 1;

/** With a stream that was begun: on a session where nothing happens it would cross the next request, and lose it. */
function sayLeaving(session: http2.ServerHttp2Session): void {
  if (!session.closed && !session.destroyed) session.goaway(http2.constants.NGHTTP2_NO_ERROR, everyStream);
}

interface HeadRules {
  readonly guard: DoorGuard;
  readonly maxHeadLines: number;
}

function checkHead({ rawHeaders, headers }: NodeRequest, { guard, maxHeadLines }: HeadRules): void {
  if (rawHeaders.length / 2 > maxHeadLines) {
    throw new Fault("headers_too_large", `the head must have at most ${maxHeadLines} lines`);
  }
  for (const name of singleHeaders) {
    const count = rawHeaders.filter((one, i) => i % 2 === 0 && one.toLowerCase() === name).length;
    if (count > 1) throw new Fault("duplicate_header", `the header ${name} is there ${count} times`);
  }
  guard.check({
    host: first(headers[":authority"]) ?? headers.host,
    origin: first(headers.origin),
    fetchSite: first(headers["sec-fetch-site"]),
  });
}

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

const peerOf = (socket: Socket | undefined): string => socket?.remoteAddress ?? "unix";

interface Answering {
  readonly request: NodeRequest;
  readonly response: NodeResponse;
  readonly fault: Fault;
}

function answer({ request, response, fault }: Answering): void {
  if (!request.complete) leaveUnread(response);
  response.statusCode = fault.status;
  response.setHeader("content-type", "application/json; charset=utf-8");
  response.setHeader("latchkey-error", fault.code);
  if (fault.metadata["allow"] !== undefined) response.setHeader("allow", fault.metadata["allow"]);
  response.end(errorBody(fault));
}
