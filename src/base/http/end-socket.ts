import type { Duplex } from "node:stream";

/**
 * Time for the client to read the last response: unread bytes cause a reset, which would overtake the response, and the
 * client would not learn why it was refused.
 */
export const cutAfterMs = 1_000;

/** Ends a connection that is not read any more, and destroys it if the client does not close its side soon. */
export function endSocket(socket: Duplex, text: string | Buffer = ""): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(text);
  const cut = setTimeout(() => socket.destroy(), cutAfterMs);
  socket.once("close", () => clearTimeout(cut));
}
