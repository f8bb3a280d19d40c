import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Fault } from "../../base/fault.ts";
import { endSocket } from "../../base/http/end-socket.ts";
import { rawAnswer } from "../../base/http/malformed.ts";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import { StreamRequest } from "../../relay/http2/stream-front.ts";

/** What a door remembers of its callers' connections: the answer to what was asked last, and which of them end. */
export interface DoorSockets {
  /** Returns false when nothing more of the connection is read. */
  begin(response: ServerResponse): boolean;
  /** Of a caller that is idle, nothing is kept: with its last answer and its request that would be 10 KB each. */
  forget(response: FrontResponse): void;
  /** RFC 9112, 9.6: on a connection that is said to end, no further request is processed. */
  end(socket: Duplex): void;
  isEnding(socket: Duplex): boolean;
  /** For an answer on a connection that the server has given away, and that ends with it. */
  responseOver(socket: Socket, request: IncomingMessage): ServerResponse | undefined;
  /**
   * Whether what is left of a request is not waited for, so that the connection ends with the answer to it. Over
   * HTTP/2 each request has a stream of its own, which ends in any case.
   */
  cutsOff(request: FrontRequest): boolean;
  /** Answers what never became a request, in its turn: behind the answers to what came before it. */
  refuse(socket: Duplex, fault: Fault): void;
}

export function createDoorSockets(): DoorSockets {
  const lastAnswers = new WeakMap<Duplex, ServerResponse>();
  const ending = new WeakSet<Duplex>();

  return {
    begin(response) {
      const { socket } = response.req;
      if (ending.has(socket)) return false;
      lastAnswers.set(socket, response);
      return true;
    },
    forget(response) {
      if (!(response instanceof http.ServerResponse)) return;
      const { socket } = response.req;
      if (response.closed && lastAnswers.get(socket) === response) lastAnswers.delete(socket);
    },
    end: (socket) => void ending.add(socket),
    isEnding: (socket) => ending.has(socket),
    cutsOff: (request) =>
      !request.complete &&
      !(request instanceof StreamRequest) &&
      (ending.has(request.socket) ? hasBody(request) : !isSoonRead(request)),
    responseOver(socket, request) {
      socket.on("error", () => socket.destroy());
      // What was asked before it on the same connection has no answer yet, and now nobody keeps the two apart.
      if (ending.has(socket) || lastAnswers.get(socket)?.closed === false) {
        socket.destroy();
        return undefined;
      }
      const response = new http.ServerResponse(request);
      response.assignSocket(socket);
      response.once("finish", () => endSocket(socket));
      response.setHeader("connection", "close");
      return response;
    },
    refuse(socket, fault) {
      const last = lastAnswers.get(socket);
      const end = () => endSocket(socket, rawAnswer(fault));
      if (last === undefined || last.closed) end();
      else if (last.req.complete) last.once("close", end);
      // A body that makes no sense: its own answer, unless that has begun, or others are due before it.
      else if (last.socket !== null && !last.headersSent) end();
      else socket.destroy();
    },
  };
}

const hasBody = ({ headers }: FrontRequest): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;

/** A body this small lies in the socket's buffer already: it is dropped, and the connection goes on. */
const droppedBytes = 64 * 1024;

/** Whether what is left of a request is so little that it costs less to drop it than to connect again. */
function isSoonRead({ headers }: FrontRequest): boolean {
  // Who was not told to go on may leave the body out: what comes next may be it, or another request.
  if (headers.expect !== undefined || headers["transfer-encoding"] !== undefined) return false;
  return Number(headers["content-length"] ?? 0) <= droppedBytes;
}
