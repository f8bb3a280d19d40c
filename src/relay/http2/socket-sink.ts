import { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { ByteSink } from "./wire/frame-output.ts";

/** Writes the frames of a connection to its socket. */
export function createSocketSink(socket: Socket): ByteSink {
  const isPlain = socket instanceof Socket && !(socket instanceof TLSSocket);
  return {
    write(bytes) {
      if (socket.destroyed || socket.writableEnded) return true;
      if (!isPlain || socket.writableLength > 0) {
        // The socket keeps the bytes until they are sent.
        socket.write(Buffer.from(bytes));
        return true;
      }
      socket.write(bytes);
      // The kernel took all bytes at once, or the socket keeps them.
      return socket.writableLength === 0;
    },
    get unsentBytes() {
      return socket.writableLength;
    },
  };
}
