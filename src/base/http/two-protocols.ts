import net, { type Server, type ServerOpts, type Socket } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { Fault } from "../fault.ts";
import { giveSocket } from "../node/injected-sockets.ts";
import type { ConnectionLimit } from "./connection-limit.ts";
import { detectProtocol } from "./detect-protocol.ts";
import type { IdleSince } from "./drain-listener.ts";
import { IdleConnections } from "./idle-connections.ts";
import type { ListenerTls } from "./listener.ts";
import { isGone } from "./malformed.ts";
import { PendingHandshakes } from "./pending-handshakes.ts";
import { requireClientName, tlsServerOptions } from "./tls.ts";
import { noteUnixPath } from "./unix-path.ts";

/** Serves HTTP/1.1 and HTTP/2 on one port: detected by ALPN with TLS, and by the first bytes without. */
export interface TwoProtocols {
  readonly server: Server;
  /** Detects the protocol of a connection from `serveFirst`, after its first bytes were unread. */
  tell(socket: Socket): void;
  /** Ends connections whose TLS handshake or protocol has been waited for since then. */
  closeIdle(since: IdleSince): void;
  destroy(): void;
}

interface TwoProtocolsOptions {
  readonly tls: ListenerTls | undefined;
  readonly socketOptions: ServerOpts;
  /** Undefined: any number of connections. */
  readonly limit?: ConnectionLimit | undefined;
  /** Without TLS: returns the socket that replaces a newly accepted connection. */
  readonly replaceSocket?: (accepted: Socket, server: Server) => Socket;
  /** Without TLS: receives connections before their protocol is known. */
  readonly serveFirst?: (socket: Socket) => void;
  readonly serveHttp1: (socket: Socket) => void;
  readonly serveHttp2: (socket: Socket) => void;
  /** Called for a peer that did not complete its TLS handshake. */
  readonly refuse: (fault: Fault, socket: TLSSocket) => void;
}

export function createTwoProtocols(options: TwoProtocolsOptions): TwoProtocols {
  const { tls: pair, socketOptions, limit, replaceSocket = keepSocket } = options;
  const { serveFirst = tell, serveHttp1, serveHttp2, refuse } = options;
  const sockets = new Set<Socket>();
  const undecided = new IdleConnections();
  const handshakes = new PendingHandshakes();

  function tell(socket: Socket): void {
    undecided.add(socket);
    detectProtocol(socket, (protocol, sniffed) => {
      undecided.forget(socket);
      if (protocol === "h2") serveHttp2(sniffed);
      else serveHttp1(sniffed);
    });
  }

  /** Creates a server that never listens itself: it receives the admitted connections. */
  function createTls(given: ListenerTls): Server {
    const tlsOptions = { ...socketOptions, ...tlsServerOptions(given), ALPNProtocols: ["h2", "http/1.1"] };
    const secure = tls.createServer(tlsOptions, (socket) => {
      handshakes.ended(socket);
      requireClientName(socket, given);
      if (socket.destroyed) return;
      if (socket.alpnProtocol === "h2") serveHttp2(socket);
      else serveHttp1(socket);
    });
    secure.on("tlsClientError", (error: NodeJS.ErrnoException, socket: TLSSocket) => {
      // After a handshake timeout, Node leaves the connection open.
      socket.destroy();
      if (isGone(error)) return;
      refuse(
        new Fault("malformed_request", "the TLS handshake failed: no TLS, or no accepted client certificate"),
        socket,
      );
    });
    return secure;
  }

  function track(socket: Socket): void {
    // Node caches the address of a peer only when it is read; after the peer has left, it is unknown.
    void socket.remoteAddress;
    noteUnixPath(socket, server);
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  }

  const secure = pair === undefined ? undefined : createTls(pair);
  const server = net.createServer(socketOptions).on("connection", (accepted) => {
    if (limit?.admit(accepted) === false) return;
    const socket = secure === undefined ? replaceSocket(accepted, server) : accepted;
    track(socket);
    limit?.count(socket);
    if (secure === undefined) serveFirst(socket);
    else {
      handshakes.begun(socket);
      giveSocket(secure, socket);
    }
  });
  return {
    server,
    tell,
    closeIdle(since) {
      undecided.close(since);
      handshakes.close(since);
    },
    destroy() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

const keepSocket = (accepted: Socket): Socket => accepted;
