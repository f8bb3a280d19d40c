import http from "node:http";
import type { Socket } from "node:net";
import type { Fault } from "../../base/fault.ts";
import { endSocket } from "../../base/http/end-socket.ts";
import { createFramingGuard, guardExpectations } from "../../base/http/framing-guard.ts";
import { faultOfParser, isGone, rawAnswer } from "../../base/http/malformed.ts";
import { startInjection } from "../../base/node/injected-sockets.ts";
import type { NodeRequest } from "./calls.ts";
import type { NodeResponse } from "./slow-readers.ts";

/** The connections of the control plane's port that speak HTTP/1.1. */
export interface Http1Connections {
  serve(socket: Socket): void;
  /** Closes each connection after its next response. */
  leave(): void;
  /** Closes connections without a request at once, and the others after their response. */
  drain(): void;
}

interface Http1Options {
  readonly maxHeadBytes: number;
  readonly handle: (request: NodeRequest, response: NodeResponse) => void;
  /** Called for a connection that is closed because its client sent no HTTP. */
  readonly refuse: (fault: Fault, peer: string) => void;
}

export function createHttp1Connections({ maxHeadBytes, handle, refuse }: Http1Options): Http1Connections {
  let leaving = false;
  let draining = false;
  const open = new Set<Socket>();
  /** Connections with a pending request. */
  const busy = new Set<Socket>();

  const isFramed = createFramingGuard((fault, socket) => refuse(fault, peerOf(socket)));

  const server = http.createServer(
    { maxHeaderSize: maxHeadBytes, headersTimeout: 10_000, requestTimeout: 0, connectionsCheckingInterval: 1_000 },
    (request, response) => {
      if (!isFramed(request, response)) return;
      if (leaving) response.setHeader("connection", "close");
      busy.add(request.socket);
      response.once("close", () => {
        busy.delete(request.socket);
        if (draining) request.socket.destroySoon();
      });
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
    const fault = faultOfParser(error);
    refuse(fault, peerOf(socket as Socket));
    endSocket(socket, rawAnswer(fault));
  });

  return {
    serve(socket) {
      open.add(socket);
      socket.once("close", () => open.delete(socket));
      inject(socket);
    },
    leave() {
      leaving = true;
    },
    drain() {
      leaving = true;
      draining = true;
      server.close();
      for (const socket of open) if (!busy.has(socket)) socket.destroy();
    },
  };
}

/** The client's address, for logs. */
export const peerOf = (socket: Socket | undefined): string => socket?.remoteAddress ?? "unix";
