import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Fault } from "../fault.ts";
import { errorBody } from "./error-body.ts";
import { mistakeInHttp1 } from "./framing.ts";

/**
 * Returns whether a request may be answered. Otherwise the guard has answered it, or its connection has ended: after a
 * request that another parser could read differently, Node may already have parsed further requests from the same bytes.
 */
export type FramingGuard = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Without this, Node answers 417 to an unknown expectation itself, and reads on. */
export function guardExpectations(server: Server, isFramed: FramingGuard): void {
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    if (isFramed(request, response)) response.writeHead(417, { connection: "close" }).end();
  });
}

/** `refused` is called for a connection that the guard ends. */
export function createFramingGuard(refused: (fault: Fault, socket: Socket) => void): FramingGuard {
  const ended = new WeakSet<Socket>();
  return (request, response) => {
    const { socket } = request;
    if (ended.has(socket)) return false;
    const mistake = mistakeInHttp1(request);
    if (mistake === undefined) return true;
    ended.add(socket);
    const fault = new Fault("malformed_request", mistake);
    refused(fault, socket);
    const body = errorBody(fault);
    response.setHeader("connection", "close");
    response.setHeader("content-type", "application/json; charset=utf-8");
    response.setHeader("content-length", Buffer.byteLength(body));
    response.setHeader("latchkey-error", fault.code);
    response.writeHead(fault.status).end(body);
    return false;
  };
}
