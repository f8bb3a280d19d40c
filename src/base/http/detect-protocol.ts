import type { Socket } from "node:net";

/** First bytes of an HTTP/2 client (RFC 9113, 3.4). No HTTP/1 request begins with them. */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
/** Limits the time until all bytes that decide the protocol have arrived. */
const firstBytesMs = 10_000;

/**
 * Detects HTTP/2 or HTTP/1 by the first bytes, and unreads them. Waits until the bytes are unambiguous: a read may
 * return a single byte, and `P` begins POST as well as the preface.
 */
export function detectProtocol(socket: Socket, hand: (protocol: "h1" | "h2", socket: Socket) => void): void {
  const read: Buffer[] = [];
  let isDone = false;
  const done = () => {
    isDone = true;
    clearTimeout(late);
    socket.off("data", onData).off("end", onEnd).off("close", done).off("error", onError);
  };
  const late = setTimeout(() => {
    // Read bytes first that arrived while the process was paused.
    setImmediate(() => {
      if (!isDone) socket.destroy();
    });
  }, firstBytesMs);
  const onEnd = () => socket.destroy();
  // The peer left before the protocol was known.
  const onError = () => socket.destroy();
  function onData(chunk: Buffer): void {
    read.push(chunk);
    const bytes = read.length === 1 ? chunk : Buffer.concat(read);
    const compared = Math.min(bytes.length, preface.length);
    const same = bytes.subarray(0, compared).equals(preface.subarray(0, compared));
    if (same && compared < preface.length) return;
    done();
    socket.pause();
    socket.unshift(bytes);
    hand(same ? "h2" : "h1", socket);
    // An HTTP/2 session reads the unread bytes itself; resuming the socket would take them away.
    if (!same) socket.resume();
  }
  socket.on("data", onData).on("end", onEnd).on("close", done).on("error", onError);
}
