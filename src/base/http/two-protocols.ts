import net, { type Server, type ServerOpts, type Socket } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { Fault } from "../fault.ts";
import { giveSocket } from "../node/injected-sockets.ts";
import type { ConnectionLimit } from "./connection-limit.ts";
import { sniff } from "./detect-protocol.ts";
import type { ListenerTls } from "./listener.ts";
import { isGone } from "./malformed.ts";
import { requireClientName, tlsServerOptions } from "./tls.ts";

/** One port for HTTP/1.1 and HTTP/2: told apart by ALPN under TLS, and by the first bytes without it. */
export interface TwoProtocols {
  readonly server: Server;
  /** For what was served first: sees to a connection whose first bytes are unread again. */
  tell(socket: Socket): void;
  /** Ends connections that have not said yet what they speak. */
  dropUndecided(): void;
  destroy(): void;
}

interface TwoProtocolsOptions {
  readonly tls: ListenerTls | undefined;
  readonly socketOptions: ServerOpts;
  /** Undefined: any number of connections. */
  readonly limit?: ConnectionLimit | undefined;
  /** Without TLS: what is served in place of a connection that was accepted a moment ago. */
  readonly inPlaceOf?: (accepted: Socket, server: Server) => Socket;
  /** Without TLS: sees connections before anybody knows what they speak. */
  readonly serveFirst?: (socket: Socket) => void;
  readonly serveHttp1: (socket: Socket) => void;
  readonly serveHttp2: (socket: Socket) => void;
  /** A peer that did not complete its TLS handshake. */
  readonly refuse: (fault: Fault, socket: TLSSocket) => void;
}

export function createTwoProtocols(options: TwoProtocolsOptions): TwoProtocols {
  const { tls: pair, socketOptions, limit, inPlaceOf = asItIs } = options;
  const { serveFirst = tell, serveHttp1, serveHttp2, refuse } = options;
  const sockets = new Set<Socket>();
  const undecided = new Set<Socket>();

  function tell(socket: Socket): void {
    undecided.add(socket);
    socket.once("close", () => undecided.delete(socket));
    sniff(socket, (protocol, sniffed) => {
      undecided.delete(socket);
      if (protocol === "h2") serveHttp2(sniffed);
      else serveHttp1(sniffed);
    });
  }

  /** Never listens itself: it is given the connections that are admitted. */
  function createTls(given: ListenerTls): Server {
    const tlsOptions = { ...socketOptions, ...tlsServerOptions(given), ALPNProtocols: ["h2", "http/1.1"] };
    const secure = tls.createServer(tlsOptions, (socket) => {
      requireClientName(socket, given);
      if (socket.destroyed) return;
      if (socket.alpnProtocol === "h2") serveHttp2(socket);
      else serveHttp1(socket);
    });
    secure.on("tlsClientError", (error: NodeJS.ErrnoException, socket: TLSSocket) => {
      // Node leaves a connection open whose handshake took too long.
      socket.destroy();
      if (isGone(error)) return;
      refuse(new Fault("malformed_request", "not TLS, or without a certificate that is taken here"), socket);
    });
    return secure;
  }

  function know(socket: Socket): void {
    // Node forgets the address of a peer that has left, unless it was asked before.
    void socket.remoteAddress;
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  }

  const secure = pair === undefined ? undefined : createTls(pair);
  const server = net.createServer(socketOptions).on("connection", (accepted) => {
    if (limit?.admit(accepted) === false) return;
    const socket = secure === undefined ? inPlaceOf(accepted, server) : accepted;
    know(socket);
    limit?.count(socket);
    if (secure === undefined) serveFirst(socket);
    else giveSocket(secure, socket);
  });
  return {
    server,
    tell,
    dropUndecided() {
      for (const socket of undecided) socket.destroy();
    },
    destroy() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

const asItIs = (accepted: Socket): Socket => accepted;
