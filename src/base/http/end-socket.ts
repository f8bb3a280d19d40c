import type { Duplex } from "node:stream";

/**
 * The client has this time to read the last answer: a reset, which follows unread bytes, would overtake it, and the
 * client would learn that it was refused and not why.
 */
export const cutAfterMs = 1_000;

/** Ends a connection of which nothing more is read, and destroys it if the client does not close its side soon. */
export function endSocket(socket: Duplex, text: string | Buffer = ""): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(text);
  const cut = setTimeout(() => socket.destroy(), cutAfterMs);
  socket.once("close", () => clearTimeout(cut));
}
