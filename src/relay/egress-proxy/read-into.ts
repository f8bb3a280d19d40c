import type { OnReadOpts, Socket } from "node:net";

/**
 * Hands the bytes of a socket on as `onread` does. Node accepts `onread` only for sockets that it connects by itself,
 * so each read is copied once.
 */
export function readInto(socket: Socket, { buffer, callback }: OnReadOpts): Socket {
  socket.on("data", (bytes: Buffer) => {
    for (let at = 0; at < bytes.length && !socket.destroyed; ) {
      const into = typeof buffer === "function" ? buffer() : buffer;
      const length = Math.min(into.length, bytes.length - at);
      into.set(bytes.subarray(at, at + length));
      at += length;
      callback(length, into);
    }
  });
  return socket;
}
