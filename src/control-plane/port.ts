import http from "node:http";
import http2 from "node:http2";
import net, { type Server, type Socket } from "node:net";
import type { ConnectRouter, Interceptor } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { DoorGuard } from "../base/door-guard.ts";
import { errorBody } from "../base/error-body.ts";
import { Fault } from "../base/fault.ts";
import type { ListenerTls } from "../base/listener.ts";
import { faultOfParser, rawAnswer } from "../base/malformed.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import { requireClientName, tlsServerOptions } from "../base/tls.ts";
import type { World } from "../base/world.ts";
import { sniff } from "./sniff.ts";

/** The control plane's port: gRPC, gRPC-Web and Connect together, over HTTP/1.1 and HTTP/2, plain or TLS. */
export interface ControlPort {
  readonly server: Server;
  /** What answers from now on. Until then everything is answered `not_ready`. */
  serve(handlers: Handlers): void;
  /** Takes no more; ends when what is under way has ended. */
  drain(): Promise<void>;
  /** Ends what is still under way. */
  destroy(): void;
}

export interface Handlers {
  readonly routes: (router: ConnectRouter) => void;
  readonly interceptors: readonly Interceptor[];
}

interface ControlPortOptions {
  readonly guard: DoorGuard;
  readonly maxMessageBytes: number;
  readonly maxHeadBytes: number;
  readonly tls: ListenerTls | undefined;
  readonly warn: RareWarning;
  readonly world: World;
  /** Ends the streams of watchers when the port drains. */
  readonly shutdown: AbortSignal;
}

type NodeRequest = http.IncomingMessage | http2.Http2ServerRequest;
type NodeResponse = http.ServerResponse | http2.Http2ServerResponse;

const door = "control";

export function createControlPort(options: ControlPortOptions): ControlPort {
  const { guard, maxMessageBytes, maxHeadBytes, tls, warn, world, shutdown } = options;
  let adapter = (_request: NodeRequest, response: NodeResponse) =>
    answer(response, new Fault("not_ready", "latchkey is starting"));

  function handle(request: NodeRequest, response: NodeResponse): void {
    try {
      const { headers } = request;
      guard.check({
        host: first(headers[":authority"]) ?? headers.host,
        origin: first(headers.origin),
        fetchSite: first(headers["sec-fetch-site"]),
      });
    } catch (error) {
      const fault = Fault.from(error);
      world.metrics.refused.inc({ door, reason: fault.code });
      answer(response, fault);
      return;
    }
    adapter(request, response);
  }

  const http1 = http.createServer(
    { maxHeaderSize: maxHeadBytes, headersTimeout: 10_000, requestTimeout: 0, connectionsCheckingInterval: 1_000 },
    handle,
  );
  http1.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const fault = faultOfParser(error);
    world.metrics.refused.inc({ door, reason: fault.code });
    warn("a peer sent what is not HTTP", { door, peer: peerOf(socket as Socket), reason: fault.code });
    if (socket.writable) socket.end(rawAnswer(fault));
    else socket.destroy();
  });

  const sessions = new Set<http2.ServerHttp2Session>();
  const http2Options = {
    maxSessionMemory: 10,
    settings: { maxConcurrentStreams: 100, maxHeaderListSize: maxHeadBytes },
    maxHeaderListPairs: 200,
  };
  const keepSession = (session: http2.ServerHttp2Session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.on("error", () => session.destroy());
  };
  const refuseSession = (_error: Error, session: http2.ServerHttp2Session) => {
    world.metrics.refused.inc({ door, reason: "malformed_request" });
    warn("a peer sent what is not HTTP/2", {
      door,
      peer: peerOf(session.socket as Socket),
      reason: "malformed_request",
    });
  };
  const plain2 = http2.createServer(http2Options, handle).on("session", keepSession).on("sessionError", refuseSession);

  const sockets = new Set<Socket>();
  const keepSocket = (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  };

  function createPlain(): Server {
    return net.createServer({ noDelay: true }, (socket) => {
      keepSocket(socket);
      sniff(socket, (protocol, sniffed) => (protocol === "h2" ? plain2 : http1).emit("connection", sniffed));
    });
  }

  function createTls(pair: ListenerTls): Server {
    const secure = http2.createSecureServer({ ...http2Options, ...tlsServerOptions(pair), allowHTTP1: true }, handle);
    secure.on("session", keepSession).on("sessionError", refuseSession);
    secure.on("secureConnection", (socket) => requireClientName(socket, pair));
    secure.on("tlsClientError", (_error, socket) => {
      world.metrics.refused.inc({ door, reason: "malformed_request" });
      warn("a peer did not complete the TLS handshake", { door, peer: peerOf(socket), reason: "malformed_request" });
    });
    secure.on("connection", keepSocket);
    return secure;
  }

  const server = tls === undefined ? createPlain() : createTls(tls);
  return {
    server,
    serve({ routes, interceptors }) {
      adapter = connectNodeAdapter({
        routes,
        interceptors: [...interceptors],
        readMaxBytes: maxMessageBytes,
        shutdownSignal: shutdown,
        // A field that we do not know is a mistake of the caller's, not something to pass over.
        jsonOptions: { ignoreUnknownFields: false },
        fallback: (_request, response) =>
          answer(response as NodeResponse, new Fault("not_found", "there is no such method")),
      });
    },
    async drain() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.close();
      http1.closeIdleConnections();
      // A plain socket that never said anything would be waited for in vain.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      await closed;
    },
    destroy() {
      for (const session of sessions) session.destroy();
      for (const socket of sockets) socket.destroy();
      http1.closeAllConnections();
    },
  };
}

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

const peerOf = (socket: Socket | undefined): string => socket?.remoteAddress ?? "unix";

function answer(response: NodeResponse, fault: Fault): void {
  const body = errorBody(fault);
  response.statusCode = fault.status;
  response.setHeader("content-type", "application/json; charset=utf-8");
  response.setHeader("latchkey-error", fault.code);
  response.end(body);
}
