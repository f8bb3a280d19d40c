import type { Server, Socket } from "node:net";

const paths = new WeakMap<Socket, string>();

/** Notes through which Unix socket a connection came: the connection itself does not say. */
export function noteUnixPath(socket: Socket, server: Server): void {
  if (socket.remoteAddress !== undefined) return;
  const at = server.address();
  if (typeof at === "string") paths.set(socket, at);
}

/** Returns the path of the Unix socket through which a connection came; undefined for other connections. */
export const unixPathOf = (socket: Socket): string | undefined => paths.get(socket);
