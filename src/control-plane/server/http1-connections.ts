import http from "node:http";
import type { Socket } from "node:net";
import type { Fault } from "../../base/fault.ts";
import type { IdleSince } from "../../base/http/drain-listener.ts";
import { endSocket } from "../../base/http/end-socket.ts";
import { createFramingGuard, guardExpectations } from "../../base/http/framing-guard.ts";
import { IdleConnections } from "../../base/http/idle-connections.ts";
import { faultOfParser, isGone, rawAnswer } from "../../base/http/malformed.ts";
import { startInjection } from "../../base/node/injected-sockets.ts";
import type { NodeRequest } from "./calls.ts";
import type { NodeResponse } from "./slow-readers.ts";

/** The connections of the control plane's port that speak HTTP/1.1. */
export interface Http1Connections {
  serve(socket: Socket): void;
  /** Closes each connection after its next response. */
  leave(): void;
  closeIdle(since: IdleSince): void;
  destroy(): void;
}

interface Http1Options {
  readonly maxHeadBytes: number;
  readonly handle: (request: NodeRequest, response: NodeResponse) => void;
  /** Called for a connection that is closed because its client sent no HTTP. */
  readonly refuse: (fault: Fault, peer: string) => void;
}

export function createHttp1Connections({ maxHeadBytes, handle, refuse }: Http1Options): Http1Connections {
  let leaving = false;
  const idle = new IdleConnections();

  const isFramed = createFramingGuard((fault, socket) => refuse(fault, peerOf(socket)));

  const server = http.createServer(
    { maxHeaderSize: maxHeadBytes, headersTimeout: 10_000, requestTimeout: 0, connectionsCheckingInterval: 1_000 },
    (request, response) => {
      const { socket } = request;
      if (!isFramed(request, response)) {
        idle.forget(socket);
        return;
      }
      if (leaving) response.setHeader("connection", "close");
      idle.begun(socket);
      response.once("close", () => idle.answered(socket));
      handle(request, response);
    },
  );
  guardExpectations(server, isFramed);
  // This server never listens itself.
  const inject = startInjection(server);
  // Lines are counted by the port and answered with 431: Node would drop lines silently.
  server.maxHeadersCount = 0;
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (isGone(error)) {
      socket.destroy();
      return;
    }
    idle.forget(socket as Socket);
    const fault = faultOfParser(error);
    refuse(fault, peerOf(socket as Socket));
    endSocket(socket, rawAnswer(fault));
  });

  return {
    serve(socket) {
      idle.add(socket);
      inject(socket);
    },
    leave() {
      leaving = true;
    },
    closeIdle: (since) => idle.close(since),
    // Until then, it ends heads that take too long.
    destroy: () => void server.close(),
  };
}

/** The client's address, for logs. */
export const peerOf = (socket: Socket | undefined): string => socket?.remoteAddress ?? "unix";
