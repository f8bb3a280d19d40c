import type { Socket } from "node:net";

/** What an HTTP/2 client sends first (RFC 9113, section 3.4). No HTTP/1 request begins so. */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
/** The bytes that decide must come within this time, all of them. */
const firstBytesMs = 10_000;

/**
 * Tells HTTP/2 from HTTP/1 by the first bytes, and gives them back to the socket. A read may bring a single
 * byte, and `P` begins POST as well as the preface: it waits until the bytes decide.
 */
export function sniff(socket: Socket, hand: (protocol: "h1" | "h2", socket: Socket) => void): void {
  const read: Buffer[] = [];
  let isDone = false;
  const done = () => {
    isDone = true;
    clearTimeout(late);
    socket.off("data", onData).off("end", onEnd).off("close", done).off("error", onError);
  };
  const late = setTimeout(() => {
    // Bytes that came while the process stood still are read first.
    setImmediate(() => {
      if (!isDone) socket.destroy();
    });
  }, firstBytesMs);
  const onEnd = () => socket.destroy();
  // The peer went away before it said what it wanted.
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
    // An HTTP/2 session takes what was given back by itself; to resume under it would take the bytes away from it.
    if (!same) socket.resume();
  }
  socket.on("data", onData).on("end", onEnd).on("close", done).on("error", onError);
}
