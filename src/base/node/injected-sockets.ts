import type http from "node:http";
import type { Http2Server } from "node:http2";
import type { Server, Socket } from "node:net";
import type { Duplex } from "node:stream";

/** Gives an accepted socket to a server that does not listen itself. Node documents this for each of its servers. */
export function giveSocket(server: Server | http.Server | Http2Server, socket: Socket | Duplex): void {
  server.emit("connection", socket);
}

/**
 * Starts the timeouts of a server that does not listen itself, and returns the function that gives sockets to the
 * server. Node checks the timeouts of heads and requests from the event `listening` on, which is not documented. If no
 * listener of Node's waits for this event, each socket gets a timeout until its first request.
 */
export function startInjection(server: http.Server): (socket: Socket) => void {
  const isTimed = server.listenerCount("listening") > 0;
  server.emit("listening");
  if (isTimed) return (socket) => giveSocket(server, socket);
  server.prependListener("request", ({ socket }: http.IncomingMessage) => socket.setTimeout(0));
  return (socket) => {
    socket.setTimeout(server.headersTimeout, () => socket.destroy());
    giveSocket(server, socket);
  };
}
