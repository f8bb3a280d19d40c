import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Fault } from "../../base/fault.ts";
import { endSocket } from "../../base/http/end-socket.ts";
import { rawAnswer } from "../../base/http/malformed.ts";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import { StreamRequest } from "../../relay/http2/stream-front.ts";

/** Tracks client connections on the general path: the last response of each, and which ones are ending. */
export interface DoorSockets {
  /** Returns false if the connection is not read any further. */
  begin(response: ServerResponse): boolean;
  /** Forgets a finished response: with its request it holds 10 KB for each idle client. */
  forget(response: FrontResponse): void;
  /** RFC 9112, section 9.6: processes no further request on a connection that was announced to end. */
  end(socket: Duplex): void;
  isEnding(socket: Duplex): boolean;
  /** Returns a response for a socket that Node has detached from the server; the connection ends with the response. */
  responseOver(socket: Socket, request: IncomingMessage): ServerResponse | undefined;
  /**
   * Returns whether the connection ends with the response, because the rest of the request is too long to drop. HTTP/2
   * requests have streams of their own, which end in any case.
   */
  cutsOff(request: FrontRequest): boolean;
  /** Answers bytes that are no request, after the responses to earlier requests. */
  refuse(socket: Duplex, fault: Fault): void;
}

export function createDoorSockets(): DoorSockets {
  const lastResponses = new WeakMap<Duplex, ServerResponse>();
  const ending = new WeakSet<Duplex>();

  return {
    begin(response) {
      const { socket } = response.req;
      if (ending.has(socket)) return false;
      lastResponses.set(socket, response);
      return true;
    },
    forget(response) {
      if (!(response instanceof http.ServerResponse)) return;
      const { socket } = response.req;
      if (response.closed && lastResponses.get(socket) === response) lastResponses.delete(socket);
    },
    end: (socket) => void ending.add(socket),
    isEnding: (socket) => ending.has(socket),
    cutsOff: (request) =>
      !request.complete &&
      !(request instanceof StreamRequest) &&
      (ending.has(request.socket) ? hasBody(request) : !isSoonRead(request)),
    responseOver(socket, request) {
      socket.on("error", () => socket.destroy());
      // An earlier request on the connection has no response yet: the two could not be told apart.
      if (ending.has(socket) || lastResponses.get(socket)?.closed === false) {
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
      const last = lastResponses.get(socket);
      const end = () => endSocket(socket, rawAnswer(fault));
      if (last === undefined || last.closed) end();
      else if (last.req.complete) last.once("close", end);
      // A malformed body: answer its own request, unless the response has begun or others are due before it.
      else if (last.socket !== null && !last.headersSent) end();
      else socket.destroy();
    },
  };
}

const hasBody = ({ headers }: FrontRequest): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;

/** A body this small is already in the socket's buffer: drop it, and keep the connection. */
const droppedBytes = 64 * 1024;

/** Returns whether dropping the rest of a request costs less than a new connection. */
function isSoonRead({ headers }: FrontRequest): boolean {
  // A client that did not get `100 Continue` may omit the body: the next bytes may be a body or another request.
  if (headers.expect !== undefined || headers["transfer-encoding"] !== undefined) return false;
  return Number(headers["content-length"] ?? 0) <= droppedBytes;
}
