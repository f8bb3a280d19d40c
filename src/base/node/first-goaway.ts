import http2 from "node:http2";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { giveSocket } from "./injected-sockets.ts";
import { type SocketPair, tryOnLoopback } from "./loopback-trial.ts";

/** The highest possible stream ID: streams in transit are served. */
export const everyStream = 2 ** 31 - 1;

/**
 * First GOAWAY as bytes: 8 of payload, stream 0, the highest stream there can be, NO_ERROR. nghttp2 ignores every stream
 * that begins after a GOAWAY of its own, whatever last stream the frame names, and Node can send no shutdown notice
 * (nghttp2_submit_shutdown_notice), which would be exempt. Session writes are whole frames, in order with those of the
 * socket, so that these bytes stand between two frames.
 */
const firstGoaway = Buffer.from("0000080700000000007fffffff00000000", "hex");

/** Writes the first GOAWAY below a session. Returns false if this is not possible: then the session must send one. */
export function writeFirstGoaway(socket: Socket): boolean {
  // A TLS socket takes one write at a time, and aborts the process on a second one beside that of the session.
  if (isRefuted || socket instanceof TLSSocket) return false;
  if (socket.writable) socket.write(firstGoaway);
  return true;
}

let isRefuted = false;
let tried: Promise<boolean> | undefined;

/** Tests this Node version: the client must read the frame, and everything that the session writes around it. */
export function canWriteFirstGoaway(): Promise<boolean> {
  tried ??= tryOnLoopback(tryIt).then((isUsable) => {
    isRefuted = !isUsable;
    return isUsable;
  });
  return tried;
}

async function tryIt({ caller, accepted }: SocketPair): Promise<boolean> {
  const server = http2.createServer();
  server.on("sessionError", () => {});
  server.on("stream", (stream) => {
    stream.on("error", () => {});
    stream.respond({ ":status": 200 });
    stream.write("a");
    accepted.write(firstGoaway);
    stream.end("b");
  });
  giveSocket(server, accepted);
  const client = http2.connect("http://127.0.0.1", { createConnection: () => caller });
  client.on("error", () => {});
  let lastStream: number | undefined;
  client.on("goaway", (_code, lastStreamId) => {
    lastStream = lastStreamId;
  });
  let text = "";
  for await (const bytes of client.request({ ":path": "/" })) text += String(bytes);
  return text === "ab" && lastStream === everyStream;
}
